"""Tables on a Ray cluster, held against those of this machine."""

import subprocess

import pytest

ray = pytest.importorskip("ray", reason="apus.ray needs Ray: pip install 'ray[data]>=2.40'")
pyarrow = pytest.importorskip("pyarrow")

import apus  # noqa: E402
import apus.ray  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    ray.init(address="local", num_cpus=2, log_to_driver=False, object_store_memory=100 << 20)
    yield
    ray.shutdown()


def test_a_dataset_has_the_rows_of_the_table(cluster, busy):
    dataset = apus.ray.read(busy, "inputs", 100, -5, columns=["height", "txid"], blocks=7,
                            chain="regtest")
    with apus.Chain(busy, chain="regtest") as chain:
        due = pyarrow.table(chain.inputs(100, len(chain) - 5, columns=["height", "txid"]))
    found = sorted((row["height"], row["txid"]) for row in dataset.take_all())
    assert found == sorted(zip(due["height"].to_pylist(), due["txid"].to_pylist()))
    with pytest.raises(ValueError, match="no table coins"):
        apus.ray.read(busy, "coins", chain="regtest")
    empty = apus.ray.read(busy, "inputs", 9, 9, columns=["height"], chain="regtest")
    assert empty.count() == 0 and empty.schema().names == ["height"]
    with pytest.raises(TypeError, match="not the text"):
        apus.ray.read(busy, "inputs", columns="height", chain="regtest")


def test_files_are_written_once_and_proved(cluster, busy, program, tmp_path):
    seen = []
    options = {"program": program, "blocks": 30, "options": ["--regtest"]}
    export = lambda **more: apus.ray.export(busy, "outputs", tmp_path / "out", **options, **more)
    written = export(progress=lambda done, count: seen.append((done, count)))
    assert seen[-1] == (written, written) and written > 3
    assert export() == 0
    proof = [program, "shard", "verify-export", "outputs", f"--datadir={busy}", "--regtest",
             f"--output={tmp_path / 'out'}", "--blocks=30"]
    proved = subprocess.run(proof, capture_output=True, text=True)
    assert proved.stdout.startswith(f"{written} files proved"), proved
    with pytest.raises(apus.Error, match="nowhere"):
        apus.ray.export(tmp_path / "nowhere", "outputs", tmp_path / "out", **options)
