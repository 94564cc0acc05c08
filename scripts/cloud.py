#!/usr/bin/env python3
"""Runs a job of `apus shard` in an S3 server whose answers are slow or fail, and kills tasks.

    scripts/cloud.py APUS TESTCHAIN     (needs the packages moto[server] and boto3)

The blocks and the job are in the object store. One request in FAULTS is answered with an error, cut
off, or late. Each task is killed once, some are run twice at once. The UTXO set must be that of a
sync on this machine.
"""

import http.client
import http.server
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
from moto.server import ThreadedMotoServer

FAULTS = 12
SEED = 7

random_faults = random.Random(SEED)
faults = {"error": 0, "cut off": 0, "late": 0}


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the S3 server, most of them."""

    protocol_version = "HTTP/1.1"
    upstream = 0

    def log_message(self, *_):
        pass

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = random_faults.choice(list(faults)) if random_faults.randrange(FAULTS) == 0 else None
        if fault:
            faults[fault] += 1
        if fault == "late":
            time.sleep(0.5)
        if fault == "error":
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.upstream)
        upstream.request(self.command, self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if fault == "cut off" and len(content) > 1:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward


def main():
    apus, testchain = (os.path.abspath(path) for path in sys.argv[1:3])
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    Proxy.upstream = moto.get_host_and_port()[1]
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": f"http://127.0.0.1:{proxy.server_address[1]}",
        "AWS_ALLOW_HTTP": "true",
    }
    os.environ.update(environment)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)

        def run(*args, **options):
            command = [apus, *args]
            ran = subprocess.run(command, capture_output=True, text=True, **options)
            assert ran.returncode == 0, f"{' '.join(args)}: {ran.stderr}"
            return ran.stdout

        subprocess.run([testchain, "--blocks", "60", "--bytes", "30M", "--output", "chain"],
                       check=True, capture_output=True)
        store = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{Proxy.upstream}")
        store.create_bucket(Bucket="bucket")
        store.upload_file("chain", "bucket", "blocks/chain")
        job = ("--job", "s3://bucket/job")
        run("shard", "plan", "--regtest", "--from", "chain", "--blocks", "s3://bucket/blocks", *job,
            "--spans", "4", "--partitions", "5", "--buckets", "3", "--assumevalid", "0")
        options = {"read": "--span", "match": "--partition", "check": "--bucket"}
        dice = random.Random(SEED)
        tasks = 0
        while (todo := json.loads(run("shard", "todo", "--json", *job)))["stage"] != "finish":
            stage = todo["stage"]
            for number in dice.sample(todo["numbers"], len(todo["numbers"])):
                command = ["shard", stage, options[stage], str(number), *job]
                try:
                    run(*command, timeout=dice.uniform(0.02, 1))
                except subprocess.TimeoutExpired:
                    pass
                with ThreadPoolExecutor(2) as both:
                    list(both.map(lambda _: run(*command), range(dice.choice([1, 2]))))
                tasks += 1
        run("shard", "finish", *job, "--datadir", "ours")
        run("sync", "--regtest", "--from", "chain", "--datadir", "due", "--method", "join",
            "--assumevalid", "0", "--quiet")
        ours, due = (json.loads(run("txoutset", "info", "--regtest", "--datadir", datadir,
                                    "--hash", "muhash")) for datadir in ("ours", "due"))
        os.chdir("/")
    assert ours["muhash"] == due["muhash"] and ours["bestblock"] == due["bestblock"], (ours, due)
    assert all(faults.values()), f"not every fault has happened: {faults}"
    print(f"{tasks} tasks, faults {faults}: the same UTXO set, {ours['txouts']} coins")


main()
