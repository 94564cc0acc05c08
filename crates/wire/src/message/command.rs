use std::fmt;

/// The name of a message: printable ASCII, at most 12 bytes (Core's `NetMsgType`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command([u8; 12]);

/// The messages with a one-byte name in the v2 transport, by that byte (BIP324). A 0 means that a
/// name of twelve bytes follows.
const SHORT_IDS: [Option<Command>; 38] = {
    let mut ids = [None; 38];
    let names = [
        "addr",
        "block",
        "blocktxn",
        "cmpctblock",
        "feefilter",
        "filteradd",
        "filterclear",
        "filterload",
        "getblocks",
        "getblocktxn",
        "getdata",
        "getheaders",
        "headers",
        "inv",
        "mempool",
        "merkleblock",
        "notfound",
        "ping",
        "pong",
        "sendcmpct",
        "tx",
        "getcfilters",
        "cfilter",
        "getcfheaders",
        "cfheaders",
        "getcfcheckpt",
        "cfcheckpt",
        "addrv2",
    ];
    let mut i = 0;
    while i < names.len() {
        ids[i + 1] = Some(Command::new(names[i]));
        i += 1;
    }
    // BIP434; those between are not used yet.
    ids[37] = Some(Command::new("feature"));
    ids
};

macro_rules! commands {
    ($($constant:ident $name:literal),* $(,)?) => {
        impl Command {
            $(
                #[doc = concat!("`", $name, "`")]
                pub const $constant: Self = Self::new($name);
            )*
        }
    };
}

commands! {
    ADDR "addr",
    ADDRV2 "addrv2",
    BLOCK "block",
    BLOCKTXN "blocktxn",
    BSPENT "bspent",
    CFCHECKPT "cfcheckpt",
    CFHEADERS "cfheaders",
    CFILTER "cfilter",
    CMPCTBLOCK "cmpctblock",
    FEATURE "feature",
    FEEFILTER "feefilter",
    FILTERADD "filteradd",
    FILTERCLEAR "filterclear",
    FILTERLOAD "filterload",
    GETADDR "getaddr",
    GETBSPENT "getbspent",
    GETBLOCKS "getblocks",
    GETBLOCKTXN "getblocktxn",
    GETCFCHECKPT "getcfcheckpt",
    GETCFHEADERS "getcfheaders",
    GETCFILTERS "getcfilters",
    GETDATA "getdata",
    GETHINTS "gethints",
    GETHEADERS "getheaders",
    HEADERS "headers",
    HINTS "hints",
    INV "inv",
    MEMPOOL "mempool",
    NOTFOUND "notfound",
    PING "ping",
    PONG "pong",
    SENDADDRV2 "sendaddrv2",
    SENDCMPCT "sendcmpct",
    SENDHEADERS "sendheaders",
    TX "tx",
    VERACK "verack",
    VERSION "version",
    WTXIDRELAY "wtxidrelay",
}

impl Command {
    /// Returns the command with this name.
    ///
    /// # Panics
    /// The name is longer than 12 bytes.
    pub const fn new(name: &str) -> Self {
        let name = name.as_bytes();
        let mut padded = [0; 12];
        let mut i = 0;
        while i < name.len() {
            padded[i] = name[i];
            i += 1;
        }
        Self(padded)
    }

    /// Returns the command whose name, padded with zeros, is `padded`; `None` if it is not
    /// printable, or a zero is followed by another byte (Core's `IsMessageTypeValid`).
    pub fn from_padded(padded: [u8; 12]) -> Option<Self> {
        let len = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
        let (name, padding) = padded.split_at(len);
        let is_printable = |byte: &u8| (0x20..=0x7e).contains(byte);
        let is_valid = name.iter().all(is_printable) && padding.iter().all(|byte| *byte == 0);
        is_valid.then_some(Self(padded))
    }

    /// Returns the name, padded with zeros.
    pub fn padded(self) -> [u8; 12] {
        self.0
    }

    /// Returns the command with this one-byte name (BIP324); `None` if there is none.
    pub fn from_short_id(id: u8) -> Option<Self> {
        *SHORT_IDS.get(usize::from(id))?
    }

    /// Returns the one-byte name (BIP324), if the command has one.
    pub fn short_id(self) -> Option<u8> {
        SHORT_IDS.iter().position(|known| *known == Some(self)).map(|id| id as u8)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printable = self.0.iter().take_while(|byte| **byte != 0);
        printable.map(|byte| char::from(*byte)).try_for_each(|c| write!(f, "{c}"))
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
