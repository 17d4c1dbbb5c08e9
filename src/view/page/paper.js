// On paper: light, and as wide as a sheet. Printing waits for no frame, so all is drawn at once.

class Paper {
  constructor(store, theme) {
    const root = document.documentElement;
    const lists = [...document.querySelectorAll(".flow, #links, #key-list")];
    let places = []; // to which they were scrolled
    addEventListener("beforeprint", () => {
      places = lists.map((list) => list.scrollTop);
      root.classList.add("paper");
      theme.show("light");
      store.touch("size");
      store.flush();
    });
    addEventListener("afterprint", () => {
      root.classList.remove("paper");
      theme.apply();
      store.touch("size");
      store.flush();
      for (const [i, list] of lists.entries()) list.scrollTop = places[i];
      store.touch("size"); // once more: words that were drawn for paper had left another room
    });
  }
}
