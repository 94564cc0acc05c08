"""Calls a node by python-bitcoinlib, and prints an answer a line."""

import sys

import bitcoin
from bitcoin.core import COutPoint, b2lx, lx
from bitcoin.rpc import JSONRPCError, Proxy

bitcoin.SelectParams("regtest")
node = Proxy(service_url=f"http://u:p@127.0.0.1:{sys.argv[1]}")


def show(name, call):
    try:
        print(f"{name}\t{call()}")
    except (JSONRPCError, IndexError) as error:
        print(f"{name}\t{type(error).__name__} {error}")


def by_name(answer):
    return sorted(answer.items(), key=str)


tip = node.getbestblockhash()
block = node.getblock(tip)
spend = block.vtx[1]
txid = spend.GetTxid()
show("getblockcount", node.getblockcount)
show("getblockhash", lambda: b2lx(node.getblockhash(node.getblockcount())))
show("getblockhash beyond", lambda: node.getblockhash(10**6))
show("getblockheader", lambda: node.getblockheader(tip))
show("getblockheader verbose", lambda: by_name(node.getblockheader(tip, True)))
show("getblock", lambda: block.serialize().hex())
show("getblock unknown", lambda: node.getblock(bytes(32)))
show("getmininginfo", lambda: node.getmininginfo()["blocks"])
show("getrawmempool", node.getrawmempool)
show("getrawtransaction", lambda: node.getrawtransaction(txid, block_hash=tip))
show("getrawtransaction verbose", lambda: by_name(node.getrawtransaction(txid, True, tip)))
show("getrawtransaction unknown", lambda: node.getrawtransaction(lx("11" * 32)))
show("gettxout", lambda: by_name(node.gettxout(COutPoint(txid, 0))))
show("gettxout spent", lambda: node.gettxout(spend.vin[0].prevout))
show("sendrawtransaction confirmed", lambda: node.sendrawtransaction(spend))
show("validateaddress", lambda: node.validateaddress("2N8hwP1WmJrFF5QWABn38y63uYLhnJYJYTF"))
show("getchaintips", lambda: len(node.call("getchaintips")))
