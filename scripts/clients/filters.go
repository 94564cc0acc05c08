// Follows a node on regtest by neutrino, and prints the hash of each best block whose filter it has.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/btcsuite/btcd/chaincfg"
	"github.com/btcsuite/btcd/wire"
	"github.com/btcsuite/btcwallet/walletdb"
	_ "github.com/btcsuite/btcwallet/walletdb/bdb"
	"github.com/lightninglabs/neutrino"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	directory, err := os.MkdirTemp("", "neutrino")
	check(err)
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "headers")
	database, err := walletdb.Create("bdb", file, true, time.Minute)
	check(err)
	chain, err := neutrino.NewChainService(neutrino.Config{
		DataDir: directory, Database: database, ChainParams: chaincfg.RegressionNetParams,
		ConnectPeers: []string{"127.0.0.1:" + os.Args[1]},
	})
	check(err)
	check(chain.Start())
	last := ""
	for {
		best, err := chain.BestBlock()
		check(err)
		if hash := best.Hash.String(); hash != last && best.Height > 0 {
			if _, err := chain.GetCFilter(best.Hash, wire.GCSFilterRegular); err == nil {
				fmt.Println(hash)
				last = hash
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
