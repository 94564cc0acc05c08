use super::opcodes::OP_RETURN;

/// Bytes of the longest script that can be satisfied (Core's `MAX_SCRIPT_SIZE`).
pub const MAX_SCRIPT_BYTES: usize = 10_000;

/// Whether nobody can spend an output with this script: it starts with OP_RETURN or is over 10,000
/// bytes long (Core's `CScript::IsUnspendable`). Such an output is no coin.
#[inline]
pub fn is_unspendable(script: &[u8]) -> bool {
    script.first() == Some(&OP_RETURN) || script.len() > MAX_SCRIPT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_return_first_or_too_long() {
        assert!(is_unspendable(&[0x6a]));
        assert!(!is_unspendable(&[0x51, 0x6a]));
        assert!(!is_unspendable(&[]));
        assert!(!is_unspendable(&[0x51; 10_000]));
        assert!(is_unspendable(&[0x51; 10_001]));
    }
}
