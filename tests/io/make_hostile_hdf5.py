#!/usr/bin/env python3
"""Makes .weights.h5 and .keras files that mean no good, with h5py.

    make_hostile_hdf5.py           writes data/hostile_hdf5/, and messages.txt there
    make_hostile_hdf5.py FOLDER    writes them and some larger ones into a folder

Each must be refused with one line that holds the words of messages.txt. `make(folder)` does the same
for another script and returns {path: words}.
"""

import io
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).resolve().parent
CASES = {}  # name of the file → (function that makes its bytes, words of the message)
LARGE = {}  # the same, not for a repository


def case(name, words, cases=CASES):
    return lambda make: cases.setdefault(name, (make, words))


def h5(fill, **options):
    """The bytes of an HDF5 file that `fill` fills; it may return changes of bytes, old → new."""
    memory = io.BytesIO()
    with h5py.File(memory, "w", **options) as file:
        patches = fill(file) or {}
    data = memory.getvalue()
    for old, new in patches.items():
        assert data.count(old) == 1 and len(old) == len(new), (data.count(old), old)
        data = data.replace(old, new)
    return data


def h5_case(name, words, cases=CASES, **options):
    return lambda fill: case(name, words, cases)(lambda: h5(fill, **options))


def small(file, name="layers/dense/vars/0", count=6):
    return file.create_dataset(name, data=np.arange(count, dtype="f4"))


def sound():
    return h5(lambda file: small(file) and None)


# ---- Links ---------------------------------------------------------------------------------------


@h5_case("external_link.weights.h5", "'layers/elsewhere': is a link to another file")
def _(file):
    small(file)
    file["layers/elsewhere"] = h5py.ExternalLink("/etc/passwd", "/x")


@h5_case("soft_link.weights.h5", "'layers/alias': is a soft link")
def _(file):
    small(file)
    file["layers/alias"] = h5py.SoftLink("/layers/dense")


@h5_case("dangling_soft_link.weights.h5", "'a': is a soft link")
def _(file):
    file["a"] = h5py.SoftLink("/b")
    file["b"] = h5py.SoftLink("/a")


@h5_case("user_defined_link.weights.h5", "'layers/odd': is a link of an unknown kind")
def _(file):
    small(file)
    file["layers/odd"] = h5py.ExternalLink("x.h5", "/x")
    # A link message: its kind (64, external), the length of its name, the name.
    return {b"\x40\x03odd": b"\x46\x03odd"}


@h5_case("hard_link_loop.weights.h5", "'layers/again': is reached by two links, or by a loop")
def _(file):
    small(file)
    file["layers/again"] = file["layers"]


@h5_case("root_in_root.weights.h5", "'top': is reached by two links, or by a loop")
def _(file):
    file["top"] = file["/"]


@h5_case("two_names.weights.h5", "is reached by two links")
def _(file):
    file["first"] = small(file, "second")


@h5_case("deep.weights.h5", "groups are nested too deep", libver=("v110", "v110"))
def _(file):
    small(file, "g/" * 100 + "x")


@h5_case("long_path.weights.h5", "has a path that is too long")
def _(file):
    small(file, "/".join(["n" * 1000] * 5))


def with_address(file, address):
    """The dataset's entry in the symbol table: where its name is, where the object is."""
    old = h5py.h5o.get_info(small(file).id).addr
    return {struct.pack("<QQ", 8, old): struct.pack("<QQ", 8, address(old))}


@h5_case("missing_dataset.weights.h5", "'layers/dense/vars/0': cannot be read")
def _(file):
    return with_address(file, lambda old: old + 40)


@h5_case("beyond_the_end.weights.h5", "'layers/dense/vars/0': cannot be read")
def _(file):
    return with_address(file, lambda old: 2**40)


# ---- Names ---------------------------------------------------------------------------------------


@h5_case("slash_in_name.weights.h5", "'layers': holds something named 'a/b'")
def _(file):
    small(file, "layers/a_b")
    return {b"a_b\0": b"a/b\0"}


@h5_case("parent_as_name.weights.h5", "'layers': holds something named '..'")
def _(file):
    small(file, "layers/..")


@h5_case("control_characters.weights.h5", r"'\x1b[31mred\x0aline': is a soft link")
def _(file):
    file["\x1b[31mred\nline"] = h5py.SoftLink("/x")


@h5_case("not_utf8.weights.h5", r"'\xff\xfe': a name that is no UTF-8")
def _(file):
    small(file, b"\xff\xfe")


# ---- Data that is elsewhere, or that leads elsewhere ---------------------------------------------


@h5_case("external_data.weights.h5", "'layers/dense/vars/0': is stored in another file")
def _(file):
    file.create_dataset("layers/dense/vars/0", (4,), "f4", external=[("/etc/passwd", 0, 16)])


@h5_case("virtual_dataset.weights.h5", "'layers/dense/vars/0': is virtual")
def _(file):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4,), "f4")
    file.create_virtual_dataset("layers/dense/vars/0", layout)


@h5_case("object_references.weights.h5", "'refs': holds references")
def _(file):
    file.create_dataset("refs", data=[small(file).ref], dtype=h5py.ref_dtype)


@h5_case("region_references.weights.h5", "'regions': holds references")
def _(file):
    file.create_dataset("regions", data=[small(file).regionref[1:3]], dtype=h5py.regionref_dtype)


@h5_case("named_type.weights.h5", "'type': is neither a group nor a dataset")
def _(file):
    file["type"] = np.dtype("f4")


# ---- Attributes ----------------------------------------------------------------------------------


@h5_case("attribute_loop.weights.h5", "'layers@self': holds references")
def _(file):
    small(file)
    file["layers"].attrs.create("self", file["layers"].ref, dtype=h5py.ref_dtype)


@h5_case("attribute_type_loop.weights.h5", "'type': is neither a group nor a dataset")
def _(file):
    # A type whose attribute is of that type.
    file["type"] = np.dtype([("x", "f4")])
    file["type"].attrs.create("again", np.zeros((), [("x", "f4")]), dtype=file["type"])


@h5_case("references_within.weights.h5", "'@nested': holds references")
def _(file):
    dtype = np.dtype([("n", "i4"), ("where", h5py.ref_dtype)])
    file.attrs.create("nested", np.array([(1, file.ref)], dtype), dtype=dtype)


@h5_case("huge_fixed_text.weights.h5", "its attributes cannot be listed")
def _(file):
    file.attrs["text"] = np.bytes_(b"t" * 5)
    # Class and version, padding by zeros, size.
    return {struct.pack("<BBHI", 0x13, 1, 0, 5): struct.pack("<BBHI", 0x13, 1, 0, 2**31 - 1)}


@h5_case("huge_variable_text.weights.h5", "'@text': cannot be read")
def _(file):
    file.attrs["text"] = "seventeen letters"
    file.flush()
    heap = struct.pack("<Q", file.id.get_file_image().index(b"GCOL"))
    # The length, and the heap that the text is in.
    return {struct.pack("<I", 17) + heap: struct.pack("<I", 2**32 - 16) + heap}


@h5_case("endless.weights.h5", "read")  # "damaged: reading it does not end" with libhdf5 1.10.8
def _(file):
    file.attrs["text"] = "seventeen letters"
    # What is left of the heap, nothing now: libhdf5 goes on and on to the next piece.
    left = 4096 - 16 - 16 - 24
    return {struct.pack("<HHIQ", 0, 0, 0, left): struct.pack("<HHIQ", 0, 0, 0, 0)}


@h5_case("crash.weights.h5", "read")  # "damaged: reading it crashes" with libhdf5 1.10.8
def _(file):
    file["x"] = np.array([True])
    # An enumeration of two, whose numbers have 2^24 bytes more than the type they are of: libhdf5
    # copies that much.
    two = b"\x18\x02\x00\x00"
    return {two + struct.pack("<I", 1): two + struct.pack("<I", 2**24 + 1)}


# ---- Numbers that are not there ------------------------------------------------------------------


@h5_case("shape_bomb.weights.h5", "'bomb': shape (1099511627776,) needs 4398046511104 bytes")
def _(file):
    file.create_dataset("bomb", (2**40,), "f4")


@h5_case("chunked_shape_bomb.weights.h5", "'bomb': shape (1099511627776,) needs")
def _(file):
    file.create_dataset("bomb", (2**40,), "f4", chunks=(1024,), compression="gzip")


@h5_case("compressed_bomb.weights.h5", "'bomb': shape (4194304,) needs 16777216 bytes, but")
def _(file):
    file.create_dataset("bomb", data=np.zeros(2**22, "f4"), chunks=(2**22,), compression=9)


@h5_case("many_small_bombs.weights.h5", "its datasets need", libver=("v110", "v110"))
def _(file):
    for i in range(100):
        file.create_dataset(f"{i}", (2**18,), "f4", chunks=(1024,))


@h5_case("overflow.weights.h5", "has more elements than 64 bits can count")
def _(file):
    file.create_dataset("x", (2**31, 2**31, 7), "f4", chunks=(1, 1, 7))
    # The extents, and the largest that there may be.
    return {struct.pack("<QQQ", 2**31, 2**31, 7) * 2: struct.pack("<QQQ", 2**31, 2**31, 2**8) * 2}


@h5_case("outside_the_file.weights.h5", "'x': lies outside the file")
def _(file):
    offset = small(file, "x").id.get_offset()
    return {struct.pack("<QQ", offset, 24): struct.pack("<QQ", 2**32, 24)}


@h5_case("shared_bytes.weights.h5", "its datasets claim")
def _(file):
    # Small ones become large, of the numbers of the only large one: extent and the largest one
    # there may be, then where the bytes are and how many.
    there = struct.pack("<QQ", small(file, "x", 4000).id.get_offset(), 16000)
    patches = {}
    for count in range(101, 109):
        offset = small(file, f"x{count}", count).id.get_offset()
        patches[struct.pack("<QQ", count, count)] = struct.pack("<QQ", 4000, 4000)
        patches[struct.pack("<QQ", offset, 4 * count)] = there
    return patches


@h5_case("rank_9.weights.h5", "'deep': has 9 axes, more than 8")
def _(file):
    file.create_dataset("deep", data=np.zeros((1,) * 9, "f4"))


@h5_case("rank_32.weights.h5", "'deep': has 32 axes, more than 8")
def _(file):
    file.create_dataset("deep", data=np.zeros((1,) * 32, "f4"))


@h5_case("null_dataset.weights.h5", "'nothing': has no extent at all")
def _(file):
    file["nothing"] = h5py.Empty("f4")


# ---- Filters -------------------------------------------------------------------------------------


@h5_case("foreign_filter.weights.h5", "'x': is packed by filter 32000")
def _(file):
    file.create_dataset("x", data=np.zeros(64, "f4"), compression="lzf")


@h5_case("scale_offset_filter.weights.h5", "'x': is packed by filter 6")
def _(file):
    file.create_dataset("x", data=np.zeros(64, "i4"), scaleoffset=0)


@h5_case("packed_twice.weights.h5", "'x': is packed twice")
def _(file):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((64,))
    properties.set_deflate(9)
    properties.set_deflate(9)
    properties.set_obj_track_times(False)
    h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((64,)), properties)


@h5_case("huge_chunk.weights.h5", "'x': is stored in chunks of more than 16777216 bytes")
def _(file):
    file.create_dataset("x", (4,), "f4", chunks=(2**29,), maxshape=(None,))


# ---- Files that are none -------------------------------------------------------------------------


@case("signature_only.weights.h5", "damaged: no readable HDF5 file")
def _():
    return b"\x89HDF\r\n\x1a\n"


@case("truncated.weights.h5", "damaged: no readable HDF5 file (truncated file")
def _():
    whole = sound()
    return whole[: len(whole) // 2]


@case("unknown_version.weights.h5", "damaged: no readable HDF5 file")
def _():
    whole = sound()
    return whole[:8] + b"\x09" + whole[9:]


@case("zeros.weights.h5", "damaged: no readable HDF5 file")
def _():
    return b"\x89HDF\r\n\x1a\n" + bytes(2000)


# ---- .keras --------------------------------------------------------------------------------------


def keras(weights=None, config=b"{}", extra=(), method=zipfile.ZIP_STORED):
    memory = io.BytesIO()
    entries = [("metadata.json", b"{}"), ("config.json", config),
               ("model.weights.h5", sound() if weights is None else weights), *extra]
    with zipfile.ZipFile(memory, "w", method) as archive:
        for name, content in entries:
            # Without a time, so that the bytes are the same every time.
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return memory.getvalue()


@case("external_link.keras", "'x': is a link to another file")
def _():
    def fill(file):
        file["x"] = h5py.ExternalLink("/etc/passwd", "/x")

    return keras(h5(fill))


@case("no_hdf5.keras", "damaged: no readable HDF5 file")
def _():
    return keras(b"no such thing" * 100)


@case("empty_weights.keras", "is empty")
def _():
    return keras(b"")


@case("parent_folder.keras", "'../../evil'")
def _():
    return keras(extra=[("../../evil", b"x")])


@case("absolute_path.keras", "'/etc/evil'")
def _():
    return keras(extra=[("/etc/evil", b"x")])


@case("bomb.keras", "as a zip bomb does")
def _():
    return keras(bytes(80 << 20), method=zipfile.ZIP_DEFLATED)


@case("config_bomb.keras", "as a zip bomb does", LARGE)
def _():
    return keras(config=bytes(80 << 20), method=zipfile.ZIP_DEFLATED)


@case("config_not_utf8.keras", "entry 'config.json' is no UTF-8")
def _():
    return keras(config=b'{"name": "\xff"}')


@case("other_method.keras", "is packed by method 14")
def _():
    return keras(method=zipfile.ZIP_LZMA)


@case("twice.keras", "entry 'config.json' appears twice")
def _():
    return keras(extra=[("config.jso_", b"{}")]).replace(b"config.jso_", b"config.json")


@case("wrong_checksum.keras", "cannot be unpacked")
def _():
    data = keras()
    return data.replace(np.arange(6, dtype="f4").tobytes(), np.arange(6, 12, dtype="f4").tobytes())


@case("truncated.keras", "no readable zip")
def _():
    return keras()[:-30]


# ---- Too large for a repository ------------------------------------------------------------------


@h5_case("too_many.weights.h5", "holds too many objects", LARGE, libver=("v110", "v110"))
def _(file):
    small(file, "x")
    for i in range(200_000):
        file.id.links.create_hard(b"%d" % i, file.id, b"x")


@h5_case("gigabytes_of_zeros.weights.h5", "'bomb': shape (536870912,) needs 2147483648", LARGE)
def _(file):
    bomb = file.create_dataset("bomb", (2**29,), "f4", chunks=(2**20,), compression=9)
    packed = zlib.compress(bytes(2**22), 9)
    for i in range(2**9):
        bomb.id.write_direct_chunk((i * 2**20,), packed)


@h5_case("too_long_text.weights.h5", "'@text': a text of more than 16777216 bytes", LARGE)
def _(file):
    file.attrs["text"] = "t" * (2**24 + 1)


@h5_case("names_beyond_measure.weights.h5", "holds too many names and texts", LARGE,
         libver=("v110", "v110"))
def _(file):
    # Every text repeats the path.
    group = file.create_group("/".join(["n" * 1000] * 4))
    for i in range(10_000):
        group.attrs.create(f"{i}", np.bytes_(b"x"))


def make(folder, cases=None):
    """Writes the files into the folder; returns {path: words of the message}."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    words = {}
    for name, (maker, message) in (cases or {**CASES, **LARGE}).items():
        (folder / name).write_bytes(maker())
        words[folder / name] = message
    return words


def main():
    if len(sys.argv) > 1:
        make(sys.argv[1])
        return
    folder = HERE / "data" / "hostile_hdf5"
    words = make(folder, CASES)
    lines = [f"{path.name}\t{message}\n" for path, message in sorted(words.items())]
    (folder / "messages.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
