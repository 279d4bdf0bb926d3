"""Loading sources from files and from archives that a Maven repository on this machine serves."""

import errno
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from afl.errors import AFLError, ParseError, SourceUnreadable
from afl.loader import MAVEN_REPOSITORY_VARIABLE, SourceLoader, SourceNotFound
from afl.parser import AFLParser, parse
from afl.source import FileOrigin, MavenOrigin
from afl.sources.joining import NotJoinable, joined


class Repository:
    """A Maven repository: what it serves, and what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                content = repository.files.get(self.path)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: the test looks at `asked`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/maven2"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def repository() -> Iterator[Repository]:
    made = Repository()
    yield made
    made.close()


def jar(**texts: str | bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        for name, text in texts.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return content.getvalue()


_PATH = "/maven2/org/example/flows/shop/1.2/shop-1.2-sources.jar"


def test_a_file_is_loaded_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "x.afl"
    path.write_text("facet Übung()", encoding="utf-8")

    entry = SourceLoader.load_file(path, is_library=True)

    assert (entry.text, entry.origin, entry.is_library) == ("facet Übung()", FileOrigin(str(path)), True)
    assert not SourceLoader.load_file(str(path)).is_library


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.afl"
    with pytest.raises(SourceUnreadable) as refused:
        SourceLoader.load_file(missing)
    assert str(refused.value) == f"File not found: {missing}"

    for read in (SourceLoader.load_file, AFLParser().parse_file):
        with pytest.raises(FileNotFoundError) as missed:
            read(missing)
        assert isinstance(missed.value, AFLError)
        assert (missed.value.errno, missed.value.filename) == (errno.ENOENT, str(missing))


def test_a_file_that_cannot_be_read_is_not_called_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable) as refused:
        SourceLoader.load_file(tmp_path)
    assert not isinstance(refused.value, FileNotFoundError)


def test_the_afl_files_of_an_archive_come_in_order_of_their_names(repository: Repository) -> None:
    repository.files[_PATH] = jar(b_afl="namespace b { }", a__z_afl="namespace a.z { }", a__readme_md="# no")

    entry = SourceLoader.load_maven("org.example.flows", "shop", "1.2", repository_url=repository.url + "/")

    assert [namespace.name for namespace in parse(entry.text).namespaces] == ["a.z", "b"]
    assert (entry.origin, entry.is_library) == (MavenOrigin("org.example.flows", "shop", "1.2", "sources"), True)
    assert repository.asked == [_PATH]


def test_an_archive_may_have_no_classifier_and_the_repository_come_from_the_environment(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.files["/maven2/g/a/1/a-1.jar"] = jar(x_afl="namespace x { }")
    monkeypatch.setenv("AFL_MAVEN_REPOSITORY", repository.url)

    entry = SourceLoader.load_maven("g", "a", "1", "", is_library=False)

    assert (entry.source_id, entry.is_library, entry.text) == ("maven://g/a/1", False, "namespace x { }")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot load .*shop-1\.2-sources\.jar: HTTP 404"),
        (b"no zip", r"Invalid JAR file .*shop-1\.2-sources\.jar"),
        (jar(x_txt="x"), r"No \.afl files found in .*shop-1\.2-sources\.jar"),
        (jar(x_afl=b"\xff"), r"Not UTF-8 .*shop-1\.2-sources\.jar!/x\.afl"),
    ],
)
def test_an_archive_that_is_no_use_is_told(repository: Repository, content: bytes | None, message: str) -> None:
    if content is not None:
        repository.files[_PATH] = content

    with pytest.raises((SourceNotFound, SourceUnreadable), match=message):
        SourceLoader.load_maven("org.example.flows", "shop", "1.2", repository_url=repository.url)


def test_a_damaged_archive_is_told(repository: Repository) -> None:
    content = bytearray(jar(x_afl="namespace x { facet F() facet G() facet H() }" * 20))
    at = content.index(b"x.afl") + 10
    content[at : at + 8] = b"\xff" * 8
    repository.files[_PATH] = bytes(content)

    with pytest.raises(SourceNotFound, match="Invalid JAR file"):
        SourceLoader.load_maven("org.example.flows", "shop", "1.2", repository_url=repository.url)


def test_a_bomb_is_not_unpacked(repository: Repository) -> None:
    repository.files[_PATH] = jar(x_afl=b" " * (65 * 1024 * 1024))

    with pytest.raises(SourceNotFound, match="its AFL files take more than 67108864 bytes"):
        SourceLoader.load_maven("org.example.flows", "shop", "1.2", repository_url=repository.url)


def test_a_repository_that_does_not_answer_is_told(repository: Repository) -> None:
    url = repository.url
    repository.close()

    with pytest.raises(ValueError, match=r"cannot load .*shop.*refused"):
        SourceLoader.load_maven("org.example.flows", "shop", "1.2", repository_url=url)


def test_without_a_repository_maven_central_is_asked(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    # A proxy that is not there: nothing leaves this machine.
    closed = repository.url.removesuffix("/maven2")
    repository.close()
    monkeypatch.setenv("https_proxy", closed)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv(MAVEN_REPOSITORY_VARIABLE, raising=False)

    with pytest.raises(SourceNotFound, match=r"cannot load https://repo1\.maven\.org/maven2/g/a/1/a-1-sources\.jar: "):
        SourceLoader.load_maven("g", "a", "1")


def test_a_repository_is_at_http_https_or_file() -> None:
    with pytest.raises(SourceNotFound, match="a Maven repository is at http, https or file"):
        SourceLoader.load_maven("g", "a", "1", repository_url="ftp://x")


def test_files_with_headers_can_be_joined() -> None:
    headed = "// first\nnamespace a.b // the header\nuse c\nfacet F(namespace: Int) // last"

    text = joined([headed, "namespace c { facet G() }", "namespace d\nfacet H()"])

    program = parse(text)
    assert [(item.name, [facet.sig.name for facet in item.facets]) for item in program.namespaces] == [
        ("a.b", ["F"]),
        ("c", ["G"]),
        ("d", ["H"]),
    ]
    place = program.namespaces[0].facets[0].location
    assert place is not None
    assert place.line == 4


def test_one_text_stays_as_it_is() -> None:
    assert joined(["namespace a facet F()"]) == "namespace a facet F()"


def test_a_header_beside_a_braced_namespace_cannot_be_joined() -> None:
    with pytest.raises(NotJoinable, match="the header `namespace a` also opens a namespace with braces"):
        joined(["namespace a facet F() namespace b { }", "namespace c { }"])


def test_what_is_no_afl_is_joined_for_the_parser_to_tell() -> None:
    with pytest.raises(ParseError):
        parse(joined(['namespace a { } "', "namespace b { }"]))
