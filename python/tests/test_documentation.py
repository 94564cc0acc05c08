"""The examples of the API's documentation, of the guide and of the notebook."""

import doctest
import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import apus

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "python.md"
MODULES = ["apus._chain", "apus._commands", "apus._arguments", "apus._ray_tables"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_documentation_hold(name, tmp_path, regtest, regtest_blocks):
    module = importlib.import_module(name)
    (tmp_path / "new").mkdir()
    hints = tmp_path / "synced.hints"
    apus.create_hints(hints, datadir=regtest, chain="regtest")
    names = {"blocks": regtest_blocks, "synced": regtest, "new": tmp_path / "new", "hints": hints}
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testmod(module, extraglobs=names, optionflags=flags)
    assert result.attempted > 0 and result.failed == 0


def test_everything_that_is_offered_is_documented():
    for name in apus.__all__:
        item = getattr(apus, name)
        assert name.startswith("__") or name == "ProgressOption" or item.__doc__, name
        for method, value in vars(item).items() if isinstance(item, type) else []:
            if not method.startswith("_") and callable(value) and item.__module__ != "apus":
                assert value.__doc__, f"{name}.{method}"


def blocks_of(page):
    """The code blocks of a page in Python."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def scene(tmp_path, mainnet, mainnet_blocks):
    """A home with Bitcoin Core's directory, and the file of blocks that the guide names."""
    shutil.copytree(mainnet, tmp_path / ".bitcoin")
    (tmp_path / ".bitcoin" / "bitcoin.conf").write_text("minimumchainwork=0\n")
    shutil.copy(mainnet_blocks, tmp_path / "bootstrap.dat")
    return tmp_path


def run_page(python, code, home):
    """Runs code as a page has it, with heights that the test chain has."""
    code = code.replace("840_000", "14_000").replace("850_000", "14_100")
    # bash -c would read the user's own settings.
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": "", "MPLBACKEND": "agg"}
    return subprocess.run(
        [python, "-"], input=code, cwd=home, env=environment, capture_output=True, text=True
    )


def test_the_guide_runs_line_by_line(scene):
    for module in ["duckdb", "polars", "pyarrow", "tqdm"]:
        pytest.importorskip(module)
    blocks = blocks_of(GUIDE)
    assert len(blocks) >= 4
    done = run_page(sys.executable, "\n".join(blocks), scene)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_guide_begins_in_an_empty_environment(scene, tmp_path_factory):
    wheel = os.environ.get("APUS_WHEEL")
    if not wheel:
        pytest.skip("APUS_WHEEL names no wheel (make test-python)")
    empty = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", empty], check=True)
    python = empty / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", wheel]
    subprocess.run(install, check=True)
    others = re.compile(r"import (duckdb|polars|pyarrow|pandas)|progress=True")
    blocks = [block for block in blocks_of(GUIDE) if not others.search(block)]
    assert len(blocks) >= 3
    done = run_page(python, "\n".join(blocks), scene)
    assert done.returncode == 0, done.stderr
    # Without tqdm a bar is refused in words, and nothing is begun.
    done = run_page(
        python, "import apus; apus.sync('bootstrap.dat', datadir='x', progress=True)", scene
    )
    assert "pip install tqdm" in done.stderr and not (scene / "x").exists()


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "python" / "notebooks").glob("*.ipynb")), ids=str
)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("matplotlib")
    pytest.importorskip("polars")
    shutil.copy(notebook, tmp_path)
    monkeypatch.setenv("APUS_BLOCKS", str(ROOT / "apus" / "data" / "mainnet-0-14131.dat"))
    read = nbformat.read(notebook, as_version=4)
    client = nbclient.NotebookClient(
        read, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in read.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3
    # Notebooks are kept without results, so that changes of them can be read.
    kept = nbformat.read(notebook, as_version=4)
    assert all(not cell.get("outputs") for cell in kept.cells)
