//! The names of settings that Bitcoin Core and Apus know, and those that Core reads in its own way.

/// The options of bitcoind and bitcoin-qt 31, those of a build without wallet among them. Names
/// that older versions had are unknown to 31 as well.
const NAMES: &str = "\
    acceptnonstdtxn acceptstalefeeestimates addnode addresstype alertnotify allowignoredconf \
    asmap assumevalid avoidpartialspends bantime bind blockfilterindex blockmaxweight \
    blockmintxfee blocknotify blockreconstructionextratxn blockreservedweight blocksdir \
    blocksonly blocksxor blockversion bytespersigop capturemessages chain changetype \
    checkaddrman checkblockindex checkblocks checklevel checkmempool checkpoints choosedatadir \
    cjdnsreachable coinstatsindex conf connect consolidatefeerate daemon daemonwait datacarrier \
    datacarriersize datadir dbbatchsize dbcache dbcrashratio debug debugexclude debuglogfile \
    deprecatedrpc disablewallet discardfee discover dns dnsseed dustrelayfee externalip \
    fallbackfee fastprune fixedseeds forcecompactdb forcednsseed h help help-debug \
    i2pacceptincoming i2psam includeconf incrementalrelayfee ipcbind keypool lang \
    limitancestorcount limitancestorsize limitclustercount limitclustersize limitdescendantcount \
    limitdescendantsize listen listenonion loadblock logips loglevel loglevelalways logratelimit \
    logsourcelocations logthreadnames logtimemicros logtimestamps maxapsfee maxconnections \
    maxmempool maxreceivebuffer maxsendbuffer maxsigcachesize maxtipage maxtxfee maxuploadtarget \
    mempoolexpiry min minimumchainwork minrelaytxfee mintxfee mocktime natpmp networkactive \
    onion onlynet par peerblockfilters peerbloomfilters peertimeout permitbaremultisig \
    persistmempool persistmempoolv1 pid port prevoutfetchthreads printpriority printtoconsole \
    privatebroadcast proxy proxyrandomize prune regtest reindex reindex-chainstate \
    resetguisettings rest rpcallowip rpcauth rpcbind rpccookiefile rpccookieperms rpcdoccheck \
    rpcpassword rpcport rpcservertimeout rpcthreads rpcuser rpcwhitelist rpcwhitelistdefault \
    rpcworkqueue seednode server settings shrinkdebugfile shutdownnotify signer signet \
    signetchallenge signetseednode spendzeroconfchange splash startupnotify stopafterblockimport \
    stopatheight test testactivationheight testnet testnet4 timeout torcontrol torpassword \
    txconfirmtarget txindex txospenderindex txreconciliation uacomment uiplatform \
    unsafesqlitesync v2transport vbparams version wallet walletbroadcast walletcrosschain \
    walletdir walletnotify walletrbf walletrejectlongchains whitebind whitelist \
    whitelistforcerelay whitelistrelay zmqpubhashblock zmqpubhashblockhwm zmqpubhashtx \
    zmqpubhashtxhwm zmqpubrawblock zmqpubrawblockhwm zmqpubrawtx zmqpubrawtxhwm zmqpubsequence \
    zmqpubsequencehwm";

/// The options that only bitcoin-cli and bitcoin-wallet have; they read the same file.
const NAMES_OF_TOOLS: &str = "\
    addrinfo color dumpfile generate getinfo ipcconnect named netinfo rpcclienttimeout \
    rpcconnect rpcid rpcwait rpcwaittimeout rpcwallet stdin stdinrpcpass stdinwalletpassphrase";

/// The settings that only Apus has.
const OWN_NAMES: &str = "pagepublic";

/// Settings at the top of bitcoin.conf that apply to the main network alone (Core's
/// `NETWORK_ONLY`).
pub const NETWORK_ONLY: [&str; 7] =
    ["addnode", "bind", "connect", "port", "rpcbind", "rpcport", "wallet"];

/// The settings that cannot be negated (Core's `DISALLOW_NEGATION`).
pub const NOT_NEGATABLE: [&str; 4] = ["datadir", "loglevel", "signetchallenge", "signetseednode"];

/// Returns whether Core or Apus has a setting of this name.
pub fn is_known(name: &str) -> bool {
    [NAMES, NAMES_OF_TOOLS, OWN_NAMES].iter().any(|names| names.split(' ').any(|n| n == name))
}
