"""`examples/thumbnails`: images become thumbnails and a page; a broken one is noted; its types are those of its AFL."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from afl.cli import main
from afl.compiled.program import CompiledProgram
from afl.compiler import compile_files
from afl_stream.config import EmbeddedSettings, StreamConfig
from afl_stream.dev import LocalDeployment
from examples.thumbnails.png import Image, NotReadable, read, shrunk, written

FOLDER = Path(__file__).parents[2] / "examples" / "thumbnails"
#: Four by two pixels of red, green, blue; the left half is dark.
ROWS = [bytes([0, 2, 4, 2, 4, 6, 100, 0, 0, 200, 0, 0]), bytes([0, 2, 4, 2, 4, 6, 100, 0, 0, 200, 0, 4])]


def filtered(kind: int, rows: list[bytes], channels: int) -> bytes:
    """Return rows as the PNG specification filters them."""
    out, above = bytearray(), bytes(len(rows[0]))
    for row in rows:
        out.append(kind)
        for i, byte in enumerate(row):
            a, b = (row[i - channels] if i >= channels else 0), above[i]
            c = above[i - channels] if i >= channels else 0
            p = a + b - c
            paeth = a if abs(p - a) <= min(abs(p - b), abs(p - c)) else b if abs(p - b) <= abs(p - c) else c
            out.append((byte - [0, a, b, (a + b) // 2, paeth][kind]) % 256)
        above = row
    return bytes(out)


def png(pixels: bytes, width: int = 4, height: int = 2, colour: int = 2) -> bytes:
    """Return a PNG file of filtered rows."""
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


@pytest.mark.parametrize("kind", range(5))
def test_rows_of_every_filter_are_read(kind: int) -> None:
    assert read(png(filtered(kind, ROWS, 3))) == Image(4, 2, 3, ROWS)


def test_a_pixel_of_a_thumbnail_is_the_average_of_what_it_stands_for() -> None:
    small = shrunk(Image(4, 2, 3, ROWS), 2)

    assert small == Image(2, 1, 3, [bytes([1, 3, 5, 150, 0, 1])])
    assert read(written(small)) == small
    assert shrunk(small, 64) is small


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"GIF89a", "does not begin as PNG files do"),
        (png(filtered(0, ROWS, 3))[:-20], "damaged|within a chunk"),
        (png(b"\0" * 7), "holds 7 bytes of pixels, not 26"),
        (png(filtered(0, ROWS, 3), colour=3), "colour type 3"),
    ],
)
def test_what_is_no_such_image_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(NotReadable, match=said):
        read(data)


def test_a_folder_becomes_thumbnails_and_a_page(tmp_path: Path) -> None:
    photos, made = tmp_path / "photos", tmp_path / "made"
    photos.mkdir()
    for name in ("a", "b&c"):
        (photos / f"{name}.png").write_bytes(png(filtered(4, ROWS, 3)))
    (photos / "broken.png").write_bytes(b"GIF89a")
    config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(tmp_path / "data")))
    with LocalDeployment(config, handlers=["examples.thumbnails.handlers"]) as deployment:
        deployment.deploy(CompiledProgram(compile_files([FOLDER / "thumbnails.afl"]).program_json))
        deployment.run()
        inputs = {"folder": str(photos), "to": str(made), "width": 2}
        ending = deployment.wait(deployment.start("thumbnails.Gallery", inputs), timeout_s=60)

    assert ending is not None
    assert ending.row is not None
    assert ending.row.outputs == {
        "page": str(made / "index.html"),
        "broken": ["broken.png: it does not begin as PNG files do"],
    }
    page = (made / "index.html").read_text()
    assert page.index("<figcaption>a.png</figcaption>") < page.index("<figcaption>b&amp;c.png</figcaption>")
    assert "<li>broken.png" in page
    assert read((made / "a.small.png").read_bytes()).width == 2


def test_the_types_are_those_of_the_program(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["codegen", str(FOLDER / "thumbnails.afl"), "--lang", "python"]) == 0

    assert capsysbinary.readouterr().out == (FOLDER / "afl_types.py").read_bytes()
