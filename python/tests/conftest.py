"""Directories and programs for the tests."""

import os
import pathlib
import subprocess

import pytest

import apus

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "apus" / "data"


@pytest.fixture(scope="session")
def regtest_blocks():
    """206 blocks of regtest, framed as in blk files."""
    return DATA / "regtest-1-206.dat"


@pytest.fixture(scope="session")
def mainnet_blocks():
    """The first 14,132 blocks of mainnet."""
    return DATA / "mainnet-0-14131.dat"


@pytest.fixture(scope="session")
def regtest(tmp_path_factory, regtest_blocks):
    """A synced directory of regtest. No test changes it."""
    directory = tmp_path_factory.mktemp("regtest")
    apus.sync(regtest_blocks, datadir=directory, chain="regtest")
    return directory


@pytest.fixture(scope="session")
def mainnet(tmp_path_factory, mainnet_blocks):
    """A synced directory of mainnet. No test changes it."""
    directory = tmp_path_factory.mktemp("mainnet")
    apus.sync(mainnet_blocks, datadir=directory, minimumchainwork="0", assumevalid=0)
    return directory


def built(name):
    """A program of this workspace, which `make test-python` builds."""
    path = ROOT / "target" / "release" / name
    path = pathlib.Path(os.environ.get(name.upper().replace("-", "_"), path))
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@pytest.fixture(scope="session")
def program():
    """The program `apus`, with `apus export`."""
    return built("apus")


def generated(path, *options):
    """A file with the blocks of a generated chain of regtest."""
    subprocess.run([built("apus-testchain"), *options, "-o", path], check=True, capture_output=True)
    return path


@pytest.fixture(scope="session")
def busy(tmp_path_factory):
    """A synced directory with all kinds of scripts. No test changes it."""
    directory = tmp_path_factory.mktemp("busy")
    options = ["--blocks=60", "--bytes=3M", "--empty=0", "--keys=50", "--varied"]
    blocks = generated(directory / "blocks.dat", *options)
    apus.sync(blocks, datadir=directory, chain="regtest", assumevalid=0)
    return directory


@pytest.fixture(scope="session")
def pruned(tmp_path_factory, program):
    """A directory of regtest whose first block files were pruned. No test changes it."""
    directory = tmp_path_factory.mktemp("pruned")
    options = ["--blocks=60", "--bytes=3M", "--empty=1000", "--keys=50"]
    blocks = generated(directory / "blocks.dat", *options)
    where = [f"--datadir={directory}", "--regtest", "--quiet"]
    sync = [program, "sync", f"--from={blocks}", "--prune=1", "--fastprune", *where]
    subprocess.run(sync, check=True)
    subprocess.run([program, "prune", "--height=250", *where], check=True)
    return directory
