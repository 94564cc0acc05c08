use apus_hash::Hash;
use apus_wire::{Network, ScriptFlags, flags};

/// Returns the flags with which a block's scripts are checked (Core's `GetBlockScriptFlags`): P2SH,
/// segwit and taproot in each block except those that violated them; the others from the heights of
/// their deployments on.
pub fn script_flags(network: &Network, height: u32, hash: &Hash) -> ScriptFlags {
    let exception = network.script_flag_exceptions.iter().find(|(block, _)| block == hash);
    let mut script_flags =
        exception.map_or(flags::P2SH | flags::WITNESS | flags::TAPROOT, |(_, flags)| *flags);
    for (flag, from) in [
        (flags::DERSIG, network.bip66_height),
        (flags::CHECKLOCKTIMEVERIFY, network.bip65_height),
        (flags::CHECKSEQUENCEVERIFY, network.csv_height),
        (flags::NULLDUMMY, network.segwit_height),
    ] {
        if height >= from {
            script_flags |= flag;
        }
    }
    script_flags
}
