"""Files that go with a case: how they reach the agent, from here and from elsewhere."""

import base64
import socket
from pathlib import Path

import pytest

from burnish.core.cases import Attachment, Case, FailureKind, Image, Outcome, Turn
from burnish.core.errors import ConfigError, FileTrouble
from burnish.journal.executors import failure_of
from burnish.journal.once import DirectEffects
from burnish.journal.outages import ONCE, RetryPolicy
from burnish.system.files import Unreadable
from burnish.targets.agent.attachments import check_attachments, pinned, read_attachments
from burnish.targets.agent.document_limits import DownloadFailed, download
from tests.targets.agent_world import PLAIN, target, write_agent
from tests.targets.file_server import answer, serving
from tests.targets.office_files import GIF, JPEG, PNG, WEBP, docx, paragraph, pdf, xlsx

SOON = RetryPolicy(attempts=3, first_wait=0.001)


async def read_one(attachment: Attachment, folder: Path, patience: RetryPolicy = ONCE) -> str:
    texts, _ = await read_attachments([attachment], folder, patience=patience)
    return texts[0]


async def complaint(attachment: Attachment, folder: Path = Path("/nowhere")) -> str:
    with pytest.raises(FileTrouble) as caught:
        await read_one(attachment, folder)
    assert caught.value.remedy
    return str(caught.value)


async def test_texts_and_pictures_keep_their_order_and_names(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "note.txt").write_text("bring tea\n", encoding="utf-8")
    (tmp_path / "receipt.png").write_bytes(PNG)
    (tmp_path / "letter.docx").write_bytes(docx(paragraph("Dear Ada")))
    texts, images = await read_attachments(
        [
            Attachment(kind="text", path="in/note.txt", description='what "she" wrote & sent'),
            Attachment(kind="image", path="receipt.png", description="the receipt"),
            Attachment(kind="word", path=str(tmp_path / "letter.docx")),
        ],
        tmp_path,
    )
    assert texts == [
        '<file name="note.txt" description=\'what "she" wrote &amp; sent\'>\nbring tea\n\n</file>',
        '<image name="receipt.png" description="the receipt"/>',
        '<file name="letter.docx">\nDear Ada\n</file>',
    ]
    assert images == [Image(media_type="image/png", base64=base64.b64encode(PNG).decode())]


def sent(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_files_that_come_along_as_data(tmp_path: Path) -> None:
    note = Attachment(kind="text", data=sent(b"bring tea ${HOME}"), name="../note.txt")
    letter = Attachment(kind="word", data=sent(docx(paragraph("Dear Ada"))))
    photo = Attachment(kind="image", data=sent(PNG), name="photo.png")
    case = Case(turns=(Turn(input="what?", attachments=(note, letter, photo)),))
    assert check_attachments([case], tmp_path) == []
    texts, images = await read_attachments([note, letter, photo], tmp_path)
    assert texts == [
        '<file name="note.txt">\nbring tea ${HOME}\n</file>',
        '<file name="">\nDear Ada\n</file>',
        '<image name="photo.png"/>',
    ]
    assert images == [Image(media_type="image/png", base64=sent(PNG))]
    assert sent(PNG) not in repr(photo)


async def test_data_and_a_path_with_the_same_content_are_the_same_case(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes(b"tea")
    cases = [
        Case(turns=(Turn(input="what?", attachments=(each,)),))
        for each in (
            Attachment(kind="text", path="note.txt"),
            Attachment(kind="text", data=sent(b"tea")),
            Attachment(kind="text", data=sent(b"milk")),
        )
    ]
    here, along, other = (case.question_id for case in pinned(cases, tmp_path))
    assert here == along != other


async def test_data_that_is_none(tmp_path: Path) -> None:
    broken = Attachment(kind="text", data="not base64!", name="note.txt")
    assert "cannot read note.txt: its data is not valid base64" in await complaint(broken)
    both = Attachment(kind="text", data=sent(b"a"), path="/etc/passwd")
    assert "it has a path and data" in await complaint(both)
    misnamed = Attachment(kind="text", data=sent(b"a"), name="a.pdf")
    (problem,) = check_attachments(
        [Case(turns=(Turn(input="a", attachments=(misnamed,)),))], tmp_path
    )
    assert "does not fit a .pdf file" in problem.message


async def test_no_files_no_texts(tmp_path: Path) -> None:
    assert await read_attachments([], tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("content", "media_type"),
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
async def test_a_picture_is_what_its_bytes_say(
    content: bytes, media_type: str, tmp_path: Path
) -> None:
    (tmp_path / "photo.png").write_bytes(content)
    _, images = await read_attachments([Attachment(kind="image", path="photo.png")], tmp_path)
    assert [image.media_type for image in images] == [media_type]
    assert base64.b64decode(images[0].base64) == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is not a picture that models can read (PNG, JPEG, GIF or WebP)"),
        (b"<svg/>", "it is not a picture"),
        (
            pdf("x"),
            "it is not a picture that models can read (PNG, JPEG, GIF or WebP): "
            "it looks like a PDF",
        ),
    ],
)
async def test_what_is_no_picture_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(content)
    assert words in await complaint(Attachment(kind="image", path="photo.png"), tmp_path)


async def test_a_file_that_is_too_big_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(20_000_001)
    for kind in ("text", "image", "pdf"):
        said = await complaint(Attachment(kind=kind, path="huge.txt"), tmp_path)
        assert "it has 20,000,001 bytes, but the limit is 20,000,000" in said


async def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    said = await complaint(Attachment(kind="csv", path="gone.csv"), tmp_path)
    assert "gone.csv: it does not exist" in said
    assert "it is not a file" in await complaint(Attachment(kind="csv", path="."), tmp_path)


async def test_a_file_at_an_address() -> None:
    book = xlsx({"S": "<row><c><v>7</v></c></row>"})
    async with serving(book=answer(book), photo=answer(JPEG)) as files:
        texts, images = await read_attachments(
            [
                Attachment(kind="excel", url=f"{files.address}/book?id=3"),
                Attachment(kind="image", url=f"{files.address}/photo"),
            ],
            Path("/nowhere"),
        )
    assert texts == ['<file name="book">\n7\n</file>', '<image name="photo"/>']
    assert [image.media_type for image in images] == ["image/jpeg"]
    assert files.asked == ["/book?id=3", "/photo"]


async def test_redirects_are_followed_five_times() -> None:
    hops = {f"hop{n}": answer(status=302, Location=f"/hop{n - 1}") for n in range(1, 7)}
    async with serving(hop0=answer(b"here"), **hops) as files:
        near = Attachment(kind="text", url=f"{files.address}/hop5")
        assert "here" in await read_one(near, Path())
        far = Attachment(kind="text", url=f"{files.address}/hop6")
        assert "it redirects more than 5 times" in await complaint(far)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
async def test_a_redirect_leads_to_the_web_or_nowhere(location: str) -> None:
    async with serving(moved=answer(status=302, Location=location)) as files:
        said = await complaint(Attachment(kind="text", url=f"{files.address}/moved"))
    assert "not a web address" in said


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 204, 304])
async def test_an_address_that_says_no_is_for_the_user_to_mend(status: int) -> None:
    async with serving(doc=answer(status=status)) as files:
        said = await complaint(Attachment(kind="text", url=f"{files.address}/doc"))
        assert f"cannot read {files.address}/doc: the answer was HTTP {status}" in said
        assert files.asked == ["/doc"]


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
async def test_an_address_that_is_busy_is_asked_again(status: int) -> None:
    busy = answer(status=status, Retry_After="0")
    async with serving(doc=[busy, busy, answer(b"at last")]) as files:
        file = Attachment(kind="text", url=f"{files.address}/doc")
        assert "at last" in await read_one(file, Path(), SOON)
        assert len(files.asked) == 3


async def test_an_address_that_stays_busy_is_infrastructure() -> None:
    async with serving(doc=answer(status=503)) as files:
        file = Attachment(kind="text", url=f"{files.address}/doc")
        with pytest.raises(DownloadFailed, match="answered HTTP 503") as caught:
            await read_one(file, Path(), SOON)
        assert len(files.asked) == 3
    assert failure_of(caught.value).kind is FailureKind.INFRASTRUCTURE


@pytest.mark.parametrize(
    "broken", [answer(b"half", Content_Length="9"), b"HTTP/1.1 200", b"no HTTP at all\r\n\r\n"]
)
async def test_what_breaks_off_is_infrastructure(broken: bytes) -> None:
    async with serving(doc=broken) as files:
        file = Attachment(kind="text", url=f"{files.address}/doc")
        with pytest.raises(ConnectionError, match="could not be downloaded"):
            await read_one(file, Path())


async def test_nobody_there_is_infrastructure() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else can answer there.
        file = Attachment(kind="text", url=f"http://127.0.0.1:{held.getsockname()[1]}/x")
        with pytest.raises(ConnectionError, match="could not be downloaded: ConnectError"):
            await read_one(file, Path())


async def test_what_takes_too_long_is_infrastructure() -> None:
    async with serving(doc=b"") as files:
        with pytest.raises(ConnectionError, match=r"could not be downloaded within 0\.05 s"):
            await download(f"{files.address}/doc", patience=ONCE, seconds=0.05)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_download_is_bounded(chunked: bool) -> None:
    body = bytes(20_000_001)
    response = answer(body)
    if chunked:
        head = b"HTTP/1.1 200 Said\r\nTransfer-Encoding: chunked\r\n\r\n"
        response = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    async with serving(doc=response) as files:
        with pytest.raises(Unreadable, match="the limit is 20,000,000"):
            await download(f"{files.address}/doc", patience=ONCE)


async def test_a_file_that_may_be_kept_is_fetched_once() -> None:
    async with serving(doc=[answer(b"first"), answer(b"second")]) as files:
        kept = Attachment(kind="text", url=f"{files.address}/doc", options={"cache": True})
        fresh = Attachment(kind="text", url=f"{files.address}/doc", options={"cache": False})
        assert "first" in await read_one(kept, Path())
        assert "first" in await read_one(kept, Path())
        assert "second" in await read_one(fresh, Path())
        assert len(files.asked) == 2


async def test_variables_are_expanded_at_use_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "s3cret-value-77")
    async with serving(doc=answer(b"hi"), gone=answer(status=403)) as files:
        file = Attachment(kind="text", url=f"{files.address}/doc?token=${{DOCS_TOKEN}}")
        assert await read_one(file, Path()) == '<file name="doc">\nhi\n</file>'
        assert files.asked == ["/doc?token=s3cret-value-77"]
        host = files.address.removeprefix("http://")
        gone = Attachment(kind="text", url=f"http://ada:hunter22@{host}/gone?key=${{DOCS_TOKEN}}")
        said = await complaint(gone)
    assert "hunter22" not in said
    assert "s3cret" not in said
    with pytest.raises(ConfigError, match="NOT_THERE is not set"):
        await read_one(Attachment(kind="text", url="http://x/${NOT_THERE}"), Path())


@pytest.mark.parametrize(
    "url",
    ["ftp://x/y.txt", "file:///etc/passwd", "notes.txt", "http://", "http://x:99999/y", "//x"],
)
async def test_only_addresses_of_the_web(url: str) -> None:
    assert "it is not a web address" in await complaint(Attachment(kind="text", url=url))


def case_of(*attachments: Attachment, name: str = "one") -> Case:
    return Case(name=name, turns=(Turn(input="look", attachments=attachments),))


@pytest.mark.parametrize(
    ("attachment", "message", "remedy"),
    [
        (Attachment(kind="pdf", path="gone.pdf"), "gone.pdf: it does not exist", "Check the path"),
        (
            Attachment(kind="video", path="a.mp4"),
            "unknown file type 'video'",
            "Known types: image, pdf",
        ),
        (Attachment(kind="pdf", path="p.xlsx"), "`type: pdf` does not fit a .xlsx", "type: excel"),
        (Attachment(kind="text", path="p.PNG"), "`type: text` does not fit a .png", "type: image"),
        (
            Attachment(kind="excel", path="old.xls"),
            ".xls files are not supported",
            "Save it as .xlsx",
        ),
        (Attachment(kind="word", url="http://x/a.pdf?v=1"), "does not fit a .pdf", "type: pdf"),
        (Attachment(kind="csv", path="a.csv", options={"sheet": "x"}), "has no 'sheet'", "cache"),
        (Attachment(kind="csv", path="a.csv", url="http://x"), "it has a path and a url", "one"),
        (Attachment(kind="csv"), "a file of a case: it has no path, url or data", "one"),
        (Attachment(kind="csv", path="a\0.csv"), "invalid path", "Fix"),
        (Attachment(kind="csv", url="mailto:x"), "it is not a web address", "http://"),
        (Attachment(kind="csv", url="${NOT_THERE}/x"), "NOT_THERE is not set", "export NOT_THERE"),
        (Attachment(kind="excel", path="book.xlsx", options={"sheet": "B"}), "no sheet 'B'", "A."),
        (Attachment(kind="pdf", path="locked.pdf"), "it has a password", "without the password"),
        (Attachment(kind="image", path="photo.jpg"), "it is not a picture", "Save it as PNG"),
    ],
)
def test_what_would_not_reach_the_agent_is_said_before_the_start(
    attachment: Attachment, message: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "book.xlsx").write_bytes(xlsx({"A": "<row><c><v>1</v></c></row>"}))
    (tmp_path / "locked.pdf").write_bytes(pdf("x", password="geheim"))
    (tmp_path / "photo.jpg").write_bytes(b"BM not a jpeg")
    (problem,) = check_attachments([case_of(attachment)], tmp_path)
    assert problem.where == "case 'one'"
    assert message in problem.message
    assert remedy in problem.remedy


def test_sound_files_are_no_problem_and_addresses_are_not_visited(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b", encoding="utf-8")
    (tmp_path / "photo.jpg").write_bytes(PNG)
    (tmp_path / "letter").write_bytes(pdf("two", "pages"))
    sound = case_of(
        Attachment(kind="text", path="a.csv"),
        Attachment(kind="image", path="photo.jpg"),
        Attachment(kind="pdf", path="letter", options={"pages": [2]}),
        Attachment(kind="word", url="https://127.0.0.1:9/never/asked"),
    )
    assert check_attachments([sound], tmp_path) == []


def test_a_file_of_many_cases_is_one_problem_and_recorded_cases_need_none(tmp_path: Path) -> None:
    gone, lost = (Attachment(kind="text", path=f"{name}.txt") for name in ("gone", "lost"))
    talk = Case(name="talk", turns=(Turn(input="a"), Turn(input="b", attachments=(lost,))))
    recorded = Case(
        turns=(Turn(input="x", attachments=(Attachment(kind="text", path="never.txt"),)),),
        recorded=Outcome(replies=("said",)),
    )
    found = check_attachments(
        [case_of(gone, name="a"), case_of(gone, name="b"), talk, recorded], tmp_path
    )
    assert [problem.where for problem in found] == ["case 'a'", "case 'talk', turn 2"]


async def test_files_reach_the_model_with_what_is_said(tmp_path: Path) -> None:
    made, backend = target(write_agent(tmp_path, PLAIN))
    (tmp_path / "photo.png").write_bytes(PNG)
    files = (
        Attachment(kind="text", path="data/filing.md"),
        Attachment(kind="image", path="photo.png"),
    )
    case = Case(turns=(Turn(input="Read these.", attachments=files), Turn(input="And?")))
    await made.run(made.baseline, case, draw=0, effects=DirectEffects())
    first = backend.asked[0].messages[-1]
    assert first.content == (
        'Read these.\n\n<file name="filing.md">\n# Revenue\nIt rose 3 %.\n\n</file>\n\n'
        '<image name="photo.png"/>'
    )
    assert [base64.b64decode(image.base64) for image in first.images] == [PNG]
    assert backend.asked[1].messages[-1].content == "And?"


async def test_a_file_that_is_gone_is_no_score_but_an_error(tmp_path: Path) -> None:
    made, backend = target(write_agent(tmp_path, PLAIN))
    case = case_of(Attachment(kind="text", path="gone.txt"))
    with pytest.raises(FileTrouble, match=r"gone\.txt: it does not exist"):
        await made.run(made.baseline, case, draw=0, effects=DirectEffects())
    assert backend.asked == []
