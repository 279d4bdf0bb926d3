"""The agent: lists images, shrinks them, and writes their page. Doing anything again gives the same files."""

from __future__ import annotations

from html import escape
from pathlib import Path

from afl_stream.agent import HandlerRegistrar
from examples.thumbnails.afl_types import (
    LIST,
    SHRINK,
    WRITE_PAGE,
    ListPayload,
    ListResult,
    ShrinkPayload,
    ShrinkResult,
    Thumbnail,
    WritePagePayload,
    WritePageResult,
)
from examples.thumbnails.png import NotReadable, read, shrunk, written


def list_images(payload: ListPayload) -> ListResult:
    """List the images of a folder."""
    return ListResult(images=sorted(str(path) for path in Path(payload.folder).glob("*.png")))


def shrink(payload: ShrinkPayload) -> ShrinkResult:
    """Make the thumbnail of an image."""
    image = Path(payload.image)
    try:
        small = shrunk(read(image.read_bytes()), payload.width)
    except NotReadable as error:
        raise NotReadable(f"{image.name}: {error}") from None
    file = Path(payload.to) / f"{image.stem}.small.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(written(small))
    return ShrinkResult(thumbnail=Thumbnail(image=image.name, file=file.name, width=small.width, height=small.height))


def write_page(payload: WritePagePayload) -> WritePageResult:
    """Write the page."""
    figures = "".join(
        f'<figure><img src="{escape(one.file)}" width="{one.width}" height="{one.height}" alt="">'
        f"<figcaption>{escape(one.image)}</figcaption></figure>\n"
        for one in payload.thumbnails
    )
    broken = "".join(f"<li>{escape(reason)}</li>\n" for reason in payload.broken)
    page = Path(payload.to) / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Thumbnails</title>\n'
        f"{figures}<ul>{broken}</ul></html>\n",
        encoding="utf-8",
    )
    return WritePageResult(page=str(page))


def register_handlers(runner: HandlerRegistrar) -> None:
    """Say which function answers which facet."""
    runner.register(LIST.name, LIST.handler(list_images))
    runner.register(SHRINK.name, SHRINK.handler(shrink))
    runner.register(WRITE_PAGE.name, WRITE_PAGE.handler(write_page))
