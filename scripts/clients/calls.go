// Calls a node as LND does, by btcd's rpcclient, and prints an answer a line.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/btcsuite/btcd/btcjson"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/rpcclient"
	"github.com/btcsuite/btcd/wire/v2"
)

func show(name string, answer any, err error) {
	if err != nil {
		fmt.Printf("%s\t%v\n", name, err)
		return
	}
	text, _ := json.Marshal(answer)
	fmt.Printf("%s\t%s\n", name, text)
}

func main() {
	c, err := rpcclient.New(&rpcclient.ConnConfig{
		Host: "127.0.0.1:" + os.Args[1], User: "u", Pass: "p", HTTPPostMode: true, DisableTLS: true,
	}, nil)
	if err != nil {
		panic(err)
	}
	version, err := c.BackendVersion()
	show("version", fmt.Sprint(version), err)
	chain, err := c.GetBlockChainInfo()
	show("getblockchaininfo", chain.UnifiedSoftForks, err)
	network, err := c.GetNetworkInfo()
	show("getnetworkinfo", network.RelayFee, err)
	best, height, err := c.GetBestBlock()
	show("getbestblock", []any{best, height}, err)
	tip, err := c.GetBestBlockHash()
	show("getbestblockhash", tip, err)
	count, err := c.GetBlockCount()
	show("getblockcount", count, err)
	hash, err := c.GetBlockHash(count)
	show("getblockhash", hash, err)
	header, err := c.GetBlockHeader(hash)
	show("getblockheader", header, err)
	verbose, err := c.GetBlockHeaderVerbose(hash)
	show("getblockheader verbose", verbose, err)
	block, err := c.GetBlock(hash)
	show("getblock", block, err)
	blockVerbose, err := c.GetBlockVerbose(hash)
	show("getblock verbose", blockVerbose, err)
	blockTx, err := c.GetBlockVerboseTx(hash)
	show("getblock verbose 2", blockTx, err)
	_, err = c.GetBlock(&chainhash.Hash{1})
	show("getblock unknown", nil, err)
	tips, err := c.GetChainTips()
	show("getchaintips", len(tips), err)
	stats, err := c.GetChainTxStatsNBlocksBlockHash(10, *hash)
	show("getchaintxstats", stats, err)
	blockStats, err := c.GetBlockStats(count, &[]string{"txs", "avgfee", "utxo_increase"})
	show("getblockstats", blockStats, err)
	spend := block.Transactions[1]
	id, funding := spend.TxHash(), spend.TxIn[0].PreviousOutPoint
	raw, err := c.GetRawTransaction(&id)
	show("getrawtransaction", raw, err)
	rawVerbose, err := c.GetRawTransactionVerbose(&id)
	show("getrawtransaction verbose", rawVerbose, err)
	out, err := c.GetTxOut(&id, 0, true)
	show("gettxout", out, err)
	out, err = c.GetTxOut(&funding.Hash, funding.Index, true)
	show("gettxout spent", out, err)
	spending, err := c.GetTxSpendingPrevOut([]wire.OutPoint{funding})
	show("gettxspendingprevout", spending, err)
	accepted, err := c.TestMempoolAccept([]*wire.MsgTx{spend}, 0.1)
	show("testmempoolaccept", accepted, err)
	_, err = c.SendRawTransaction(spend, true)
	show("sendrawtransaction confirmed", nil, err)
	filter, err := c.GetBlockFilter(*hash, nil)
	show("getblockfilter", filter, err)
	mode := btcjson.EstimateModeConservative
	fee, err := c.EstimateSmartFee(6, &mode)
	show("estimatesmartfee", fee, err)
	mempool, err := c.GetRawMempool()
	show("getrawmempool", mempool, err)
	_, err = c.GetMempoolEntry(id.String())
	show("getmempoolentry", nil, err)
	info, err := c.RawRequest("getmempoolinfo", nil)
	show("getmempoolinfo", info, err)
	script, err := c.DecodeScript(spend.TxOut[0].PkScript)
	show("decodescript", script, err)
	peers, err := c.GetPeerInfo()
	show("getpeerinfo", len(peers) > 0, err)
	zmq, err := c.GetZmqNotifications()
	show("getzmqnotifications", zmq, err)
	difficulty, err := c.GetDifficulty()
	show("getdifficulty", difficulty, err)
	_, err = c.RawRequest("uptime", nil)
	show("uptime", nil, err)
}
