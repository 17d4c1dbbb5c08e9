// What is selected and how it is shown. Views listen to the parts they draw; however many changes a
// frame brings, each listener runs once.

class Store {
  #values;
  #listeners = [];
  #changed = new Set();
  #scheduled = false;

  constructor(values) {
    this.#values = values;
  }

  get(name) {
    return this.#values[name];
  }

  set(patch) {
    for (const [name, value] of Object.entries(patch)) {
      if (this.#values[name] === value) continue;
      this.#values[name] = value;
      this.#changed.add(name);
    }
    this.#schedule();
  }

  // For changes that come from outside: a tile has arrived, the window has another size.
  touch(name) {
    this.#changed.add(name);
    this.#schedule();
  }

  // For what cannot wait for the next frame. Listeners may change more: that is told as well.
  flush() {
    while (this.#changed.size > 0) this.#tell();
  }

  on(names, listener) {
    this.#listeners.push({ names, listener });
  }

  #schedule() {
    if (this.#scheduled || this.#changed.size === 0) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#tell();
    });
  }

  #tell() {
    const changed = this.#changed;
    this.#changed = new Set();
    for (const { names, listener } of this.#listeners) {
      if (names.some((name) => changed.has(name))) listener();
    }
  }
}
