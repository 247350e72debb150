"""The pytest plug-in, in projects of users: markers, fixtures, baselines, the summary."""

import json
from pathlib import Path

import pytest

from burnish import Case, Turn, evaluate

pytestmark = pytest.mark.slow

CASES = "id,input,expected\na,2+2,4\nb,3+3,6\nc,1+1,2\nd,5+5,11\n"
HEAD = """
import pytest

def agent(question):
    return str(sum(int(each) for each in question.split("+")))

marked = pytest.mark.burnish(cases="cases.csv", metric="equality", min_score=0.7)
"""


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:  # pyright: ignore[reportUnusedFunction]
    """Pytest forgets the modules that a project imports: those of burnish would be made twice."""

    def agent(question: str) -> str:
        return f"{question}?"

    case = Case(name="a", turns=(Turn(input="2+2", expected="4"),))
    report = evaluate(agent, cases=[case], metric="equality").report
    assert report.against(report).baseline is not None


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of a user, without our own settings of pytest."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (pytester.path / "cases.csv").write_text(CASES)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def run(project: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_agent=HEAD + body)
    return project.runpytest_inprocess("-p", "no:randomly", *options)


def test_an_agent_is_measured_and_its_cases_are_listed(project: pytest.Pytester) -> None:
    result = run(project, "@marked\ndef test_it(evaluate):\n    evaluate(agent)\n")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "test_agent.py::test_it: equality 0.750 [[]*, *] · 4 cases: 3 passed, 1 failed*",
            "  fail  d  equality 0.000  expected '11', found '10'",
        ]
    )
    every = run(project, "@marked\ndef test_it(evaluate):\n    evaluate(agent)\n", "-v")
    every.stdout.fnmatch_lines(["  pass  a  equality 1.000*"])


def test_a_score_that_is_too_low_fails_with_its_interval(project: pytest.Pytester) -> None:
    body = "@marked\ndef test_it(evaluate):\n    evaluate(agent, min_score=0.9)\n"
    result = run(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E  *equality 0.750 [[]*], and at least 0.9 is required; so few cases could show*",
            "E  *fail  d  equality 0.000*",
        ]
    )
    assert "pytest_plugin.py" not in result.stdout.str(), "users read their own lines only"
    by_metric = "@marked\ndef test_it(evaluate):\n    evaluate(agent, min_score={'bleu': 0.5})\n"
    run(project, by_metric).stdout.fnmatch_lines(["E  *bleu: no such metric*"])


def test_without_a_least_score_every_case_has_to_pass(project: pytest.Pytester) -> None:
    block = '{"type": "standard", "metric": "equality", "threshold": 1.0}'
    body = f"def test_it(evaluate):\n    evaluate(agent, cases='cases.csv', metric={block})\n"
    run(project, body).stdout.fnmatch_lines(["E  *✗ d*"])


def test_missing_cases_are_no_success(project: pytest.Pytester) -> None:
    body = (
        "def lost(question):\n"
        "    if question == '2+2':\n"
        "        raise ConnectionError('gone')\n"
        "    return agent(question)\n"
        "@marked\ndef test_it(evaluate):\n"
        "    from burnish import CasePolicy\n"
        "    policy = CasePolicy(infrastructure_errors=('ConnectionError',))\n"
        "    evaluate(lost, min_score=0.1, policy=policy)\n"
    )
    run(project, body).stdout.fnmatch_lines(["E  *equality: 1 case could not be measured*"])


def test_a_baseline_is_kept_and_only_a_real_regression_fails(project: pytest.Pytester) -> None:
    rows = "".join(f"c{n},{n}+{n},{2 * n}\n" for n in range(12))
    (project.path / "cases.csv").write_text(f"id,input,expected\n{rows}")
    body = "@marked\ndef test_it(evaluate):\n    evaluate(changed, min_score=0)\n"
    good = "def changed(question):\n    return agent(question)\n" + body
    first = run(project, good, "--burnish-baseline", "base")
    first.stdout.fnmatch_lines(["*· no baseline yet"])
    kept = run(project, good, "--burnish-baseline", "base", "--burnish-write-baseline")
    kept.stdout.fnmatch_lines(["*· kept as baseline"])
    (file,) = (project.path / "base").iterdir()
    assert json.loads(file.read_text())["totals"]["passed"] == 12
    one = "def changed(question):\n    return agent(question) if question != '3+3' else '7'\n"
    slightly = run(project, one + body, "--burnish-baseline", "base")
    slightly.assert_outcomes(passed=1)
    slightly.stdout.fnmatch_lines(["*· 1 newly failing since the baseline"])
    bad = run(
        project, "def changed(question):\n    return '0'\n" + body, "--burnish-baseline", "base"
    )
    bad.assert_outcomes(failed=1)
    bad.stdout.fnmatch_lines(["E  *worse than*by more than chance", "E  *newly failing: c1,*"])


def test_compare_to_takes_a_report_or_its_file(project: pytest.Pytester) -> None:
    body = (
        "@marked\ndef test_it(evaluate, compare_to, tmp_path):\n"
        "    good = evaluate(agent)\n"
        "    good.report.write(tmp_path / 'good.json')\n"
        "    assert compare_to(tmp_path / 'good.json').counts['unchanged'] == 4\n"
        "    assert not compare_to(good.report).silent\n"
        "def test_too_early(compare_to):\n    compare_to('x.json')\n"
    )
    result = run(project, body)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["compare_to: call `evaluate(agent)` first"])


def test_the_cache_pays_once_until_something_changes(project: pytest.Pytester) -> None:
    body = (
        "@marked\ndef test_it(evaluate):\n"
        "    def counted(question):\n"
        "        with open('calls', 'a') as file:\n"
        "            file.write('.')\n"
        "        return agent(question)\n"
        "    evaluate(counted)\n"
    )
    calls = Path(project.path / "calls")
    for paid, changed in ((4, ""), (4, ""), (8, "# another version\n")):
        run(project, body + changed, "--burnish-cache").assert_outcomes(passed=1)
        assert len(calls.read_text()) == paid


IDLE = "def test_it():\n    pass\n"


@pytest.mark.parametrize(
    ("body", "options", "words"),
    [
        (
            "@pytest.mark.burnish('x')\ndef test_it(evaluate):\n    evaluate(agent)\n",
            "",
            "keywords",
        ),
        ("@marked\ndef test_it(evaluate):\n    evaluate(agent, repeat=2)\n", "", "'repeat'"),
        (IDLE, "--burnish-write-baseline", "needs --burnish-baseline"),
        (IDLE, "--burnish-cache -p no:cacheprovider", "cacheprovider"),
    ],
    ids=["arguments", "unknown setting", "nowhere to write", "no cache"],
)
def test_mistakes_are_named(project: pytest.Pytester, body: str, options: str, words: str) -> None:
    result = run(project, body, *options.split())
    assert result.ret != 0
    assert words in result.stdout.str() + result.stderr.str()


def test_nothing_is_imported_before_a_test_asks_for_it(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.makepyfile(
        test_other="import sys\ndef test_it():\n"
        "    loaded = {each for each in sys.modules if each.startswith('burnish')}\n"
        "    small = {'burnish.lazy_names', 'burnish.pytest_plugin', 'burnish.version'}\n"
        "    assert loaded <= {'burnish', *small}\n"
    )
    project.makeini("")
    project.runpytest_subprocess("-p", "burnish.pytest_plugin").assert_outcomes(passed=1)
