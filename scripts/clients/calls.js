// Calls a node by the package bitcoin-core, over RPC and REST, and prints an answer a line.
const Client = require('bitcoin-core');

const client = new Client({
  host: `http://127.0.0.1:${process.argv[2]}`, username: 'u', password: 'p',
});

async function show(name, call) {
  let answer;
  try {
    answer = await call();
    if (Buffer.isBuffer(answer)) answer = answer.toString('hex');
  } catch (error) {
    answer = `${error.code} ${error.message}`;
  }
  console.log(`${name}\t${JSON.stringify(answer)}`);
}

async function main() {
  const tip = await client.getBestBlockHash();
  const block = await client.getBlock(tip, 2);
  const txid = block.tx[1].txid;
  await show('getblock', () => block);
  await show('getblockcount', () => client.getBlockCount());
  await show('batch', () => client.command([
    { method: 'getblockhash', parameters: [1] }, { method: 'getdifficulty' },
    { method: 'nosuchmethod' },
  ]));
  await show('getblockheader', () => client.getBlockHeader(tip));
  await show('getrawtransaction', () => client.getRawTransaction(txid, true, tip));
  await show('gettxout', () => client.getTxOut(txid, 0));
  await show('gettxoutproof', () => client.getTxOutProof([txid], tip));
  await show('getchaintxstats', () => client.getChainTxStats(10));
  await show('getmempoolinfo', () => client.getMempoolInfo());
  await show('decodescript', () => client.command('decodescript', '51'));
  const { address } = block.tx[1].vout[0].scriptPubKey;
  await show('validateaddress', () => client.validateAddress(address));
  await show('scantxoutset', () => client.command('scantxoutset', 'start', [`addr(${address})`]));
  const output = { id: txid, index: 0 };
  const json = { extension: 'json' };
  const rest = { hash: tip, extension: 'json' };
  await show('rest block', () => client.getBlockByHash(rest));
  await show('rest block bin', () => client.getBlockByHash({ hash: tip, extension: 'bin' }));
  await show('rest headers', () => client.getBlockHeadersByHash(tip, 1, json));
  await show('rest tx', () => client.getTransactionByHash(txid, json));
  await show('rest utxos', () => client.getUnspentTransactionOutputs([output], json));
  await show('rest chaininfo', async () => (await client.getBlockchainInformation()).blocks);
  await show('rest mempool info', () => client.getMemoryPoolInformation());
  await show('rest mempool contents', () => client.getMemoryPoolContent());
}

main();
