"""Commands: options, results, errors, progress."""

import dataclasses
import logging
import os

import pytest

import apus


def test_a_sync_says_what_it_has_done(tmp_path, mainnet_blocks):
    summary = apus.sync(
        mainnet_blocks, datadir=tmp_path, minimumchainwork="0", assumevalid=0, method="join"
    )
    assert (summary.height, summary.coins, summary.scripts_checked) == (14131, 13416, 865)
    assert summary.method == "join" and summary.checked.everything
    assert summary.refused == () and summary.above_tip.headers == 14131
    with pytest.raises(dataclasses.FrozenInstanceError):
        summary.height = 0
    again = apus.reindex(datadir=tmp_path, minimumchainwork="0", dbcache=100, par=1)
    assert (again.height, again.coins) == (14131, 13416)
    assert not (tmp_path / "debug.log").exists()


def test_hints_and_snapshots_are_made_and_proved(tmp_path, mainnet):
    hints = apus.create_hints(tmp_path / "a.hints", datadir=mainnet, height=10000)
    assert (hints.height, hints.format) == (10000, "bip456") and hints.unspent > 9000
    snapshot = apus.create_snapshot(os.fsencode(tmp_path / "utxo.dat"), datadir=mainnet)
    assert (snapshot.base_height, snapshot.coins_written) == (14131, 13416)
    for file, height in [(hints.file, 10000), (tmp_path / "utxo.dat", 14131)]:
        proved = apus.prove(file, datadir=mainnet, full=True)
        assert proved.height == height and proved.checked.everything
    proved = apus.prove(os.fsencode(hints.file), os.fsencode(mainnet))
    assert proved.coins == hints.unspent
    with pytest.raises(apus.InputError, match="exists already"):
        apus.create_hints(tmp_path / "a.hints", datadir=mainnet)
    synced = apus.sync(
        mainnet,
        datadir=tmp_path / "new",
        hints=hints.file,
        minimumchainwork="0",
        assumevalid=0,
        connect=0,
    )
    assert (synced.method, synced.height) == ("swiftsync", 14131)


def test_status_reads_a_directory(mainnet):
    status = apus.status(datadir=mainnet)
    assert (status.chain, status.height, status.coins) == ("main", 14131, 13416)
    assert status.bestblock.startswith("0000") and not status.pruned


def test_progress_goes_to_a_function(tmp_path, mainnet_blocks):
    seen = []
    apus.sync(mainnet_blocks, datadir=tmp_path, minimumchainwork="0", progress=seen.append)
    assert seen and all(isinstance(progress, apus.Progress) for progress in seen)
    assert {progress.fraction <= 1 for progress in seen} == {True}


def test_progress_is_a_bar_if_it_is_wanted(tmp_path, mainnet_blocks, capsys):
    apus.sync(mainnet_blocks, datadir=tmp_path, minimumchainwork="0", progress=True)
    assert "%" in capsys.readouterr().err


def test_an_exception_of_the_function_stops_the_work(tmp_path, mainnet_blocks):
    def fails(progress):
        raise RuntimeError("this function")

    with pytest.raises(RuntimeError, match="this function"):
        apus.sync(mainnet_blocks, datadir=tmp_path, minimumchainwork="0", progress=fails)
    assert apus.sync(mainnet_blocks, datadir=tmp_path, minimumchainwork="0").height == 14131


def test_lines_for_the_user_are_logged(tmp_path, regtest_blocks, caplog):
    (tmp_path / "bitcoin.conf").write_text("regtest=1\n[regtest]\nblocksxor=0\n")
    with caplog.at_level(logging.INFO, "apus"):
        apus.sync(regtest_blocks, datadir=tmp_path)
    levels = {record.levelname: record.getMessage() for record in caplog.records}
    assert "blocksxor=0 is not supported" in levels["WARNING"]
    assert "in order" in levels["INFO"]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"dbcache": "much"}, "dbcache"),
        ({"method": "swiftsync"}, "--method=swiftsync needs a hints file"),
        ({"chain": "moon"}, "moon"),
        ({"follow": True, "connect": 0}, "connect"),
    ],
)
def test_wrong_options_are_named(tmp_path, regtest_blocks, options, words):
    with pytest.raises(apus.WrongOptions, match=words) as error:
        apus.sync(regtest_blocks, datadir=tmp_path, **options)
    assert isinstance(error.value, (apus.Error, ValueError))
    assert "\n" not in str(error.value)


def test_an_option_that_does_not_exist_is_a_type_error():
    with pytest.raises(TypeError, match="did you mean 'datadir'"):
        apus.status(datadri="x")
    with pytest.raises(TypeError, match="not set"):
        apus.status(datadir={"x"})
