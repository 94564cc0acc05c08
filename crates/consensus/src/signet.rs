use apus_hash::{Hash, sha256d};
use apus_wire::opcodes::{OP_PUSHDATA1, OP_PUSHDATA2, OP_PUSHDATA4, OP_RETURN};
use apus_wire::{
    BlockView, Cursor, Ops, ParseError, Prevout, ScriptFlags, TxView, WITNESS_COMMITMENT_HEADER,
    flags, merkle_root, put_compact_size,
};

/// The first bytes of the push that holds the solution, in the script of the witness commitment
/// (BIP325).
const SIGNET_HEADER: [u8; 4] = [0xec, 0xc7, 0xda, 0xa2];

/// The flags with which a solution is checked.
const SIGNET_FLAGS: ScriptFlags = flags::P2SH | flags::WITNESS | flags::DERSIG | flags::NULLDUMMY;

/// Returns whether the only input of a serialised transaction satisfies the script of the coin that
/// it spends.
pub type VerifyScript = fn(tx: &[u8], spent: &Prevout, flags: ScriptFlags) -> bool;

/// Returns whether the block solves `challenge` (BIP325; Core's `CheckSignetBlockSolution`).
pub fn has_signet_solution<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    txids: &[Hash],
    challenge: &[u8],
    verify: VerifyScript,
) -> bool {
    let Some(to_sign) = transaction_to_sign(view, txids, challenge) else { return false };
    let prevout = Prevout { amount: 0, script: challenge, height: 0, is_coinbase: false };
    verify(&to_sign, &prevout, SIGNET_FLAGS)
}

/// Returns the serialised virtual transaction whose only input spends an output with the challenge
/// (Core's `SignetTxs::Create`), or `None` if the block has no witness commitment, or the solution
/// in it does not parse.
fn transaction_to_sign<B: AsRef<[u8]>>(
    view: &BlockView<B>,
    txids: &[Hash],
    challenge: &[u8],
) -> Option<Vec<u8>> {
    let coinbase = (view.tx_count() > 0).then(|| view.tx(0))?;
    let at = commitment_index(&coinbase)?;
    let cleared = clear_solution(coinbase.output(at).script());
    let (script, solution) = match &cleared {
        Some((script, solution)) => (&script[..], &solution[..]),
        None => (coinbase.output(at).script(), &[0, 0][..]),
    };
    let (script_sig, witness) = split_solution(solution).ok()?;

    let mut leaves = txids.to_vec();
    leaves[0] = txid_with_script(&coinbase, at, script);
    let root = merkle_root(&mut leaves).root;
    let spent = txid_to_spend(&view.header().to_bytes(), &root, challenge);

    let mut tx = vec![0; 4];
    let has_witness = witness != [0];
    if has_witness {
        tx.extend([0, 1]);
    }
    tx.push(1);
    tx.extend(spent.0);
    tx.extend([0; 4]);
    tx.extend(script_sig);
    tx.extend([0; 4]);
    tx.push(1);
    tx.extend([0; 8]);
    tx.extend([1, OP_RETURN]);
    if has_witness {
        tx.extend(witness);
    }
    tx.extend([0; 4]);
    Some(tx)
}

/// Returns the index of the last output that commits to the witnesses (Core's
/// `GetWitnessCommitmentIndex`).
fn commitment_index(coinbase: &TxView) -> Option<usize> {
    coinbase.outputs().rposition(|output| {
        output.script().len() >= 38 && output.script().starts_with(&WITNESS_COMMITMENT_HEADER)
    })
}

/// Splits a script into the script without its solution, and the solution; `None` if there is none
/// (Core's `FetchAndClearCommitmentSection`). Pushes are rewritten in their shortest form.
fn clear_solution(script: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut solution = None;
    let mut cleared = Vec::with_capacity(script.len());
    for op in Ops::new(script) {
        match op.data.strip_prefix(&SIGNET_HEADER[..]) {
            _ if op.data.is_empty() => cleared.push(op.code),
            Some(rest) if solution.is_none() && !rest.is_empty() => {
                solution = Some(rest.to_vec());
                put_push(&mut cleared, &SIGNET_HEADER);
            }
            _ => put_push(&mut cleared, op.data),
        }
    }
    solution.map(|solution| (cleared, solution))
}

/// Appends the opcodes that push `data` (Core's `CScript::operator<<`).
fn put_push(script: &mut Vec<u8>, data: &[u8]) {
    let len = data.len();
    match len {
        // The opcodes below OP_PUSHDATA1 push as many bytes as their numbers say.
        0..=0x4b => script.push(len as u8),
        0x4c..=0xff => script.extend([OP_PUSHDATA1, len as u8]),
        0x100..=0xffff => {
            script.push(OP_PUSHDATA2);
            script.extend((len as u16).to_le_bytes());
        }
        _ => {
            script.push(OP_PUSHDATA4);
            script.extend((len as u32).to_le_bytes());
        }
    }
    script.extend(data);
}

/// Splits a solution into the serialised scriptSig and the serialised witness stack.
fn split_solution(solution: &[u8]) -> Result<(&[u8], &[u8]), ParseError> {
    let mut cursor = Cursor::new(solution);
    cursor.compact_bytes()?;
    let script_sig_end = cursor.position();
    for _ in 0..cursor.compact_size()? {
        cursor.compact_bytes()?;
    }
    if cursor.remaining() > 0 {
        return Err(cursor.error("bytes after the solution"));
    }
    Ok(solution.split_at(script_sig_end))
}

/// Returns the txid of the coinbase with another script in the output at `at`.
fn txid_with_script(coinbase: &TxView, at: usize, script: &[u8]) -> Hash {
    let mut tx = Vec::with_capacity(coinbase.base_size());
    tx.extend(coinbase.version().to_le_bytes());
    put_compact_size(&mut tx, coinbase.input_count() as u64);
    for input in coinbase.inputs() {
        tx.extend(input.outpoint_bytes());
        put_compact_size(&mut tx, input.script_sig().len() as u64);
        tx.extend(input.script_sig());
        tx.extend(input.sequence().to_le_bytes());
    }
    put_compact_size(&mut tx, coinbase.output_count() as u64);
    for (index, output) in coinbase.outputs().enumerate() {
        let script = if index == at { script } else { output.script() };
        tx.extend(output.value().to_le_bytes());
        put_compact_size(&mut tx, script.len() as u64);
        tx.extend(script);
    }
    tx.extend(coinbase.lock_time().to_le_bytes());
    sha256d(&tx)
}

/// Returns the txid of the virtual transaction that creates the output with the challenge. It
/// commits to the header's version, parent and time, and to the merkle root without the solution.
fn txid_to_spend(header: &[u8; 80], root: &Hash, challenge: &[u8]) -> Hash {
    let mut tx = vec![0; 4];
    tx.push(1);
    tx.extend([0; 32]);
    tx.extend([0xff; 4]);
    tx.extend([74, 0x00, 72]);
    tx.extend(&header[..36]);
    tx.extend(root.0);
    tx.extend(&header[68..72]);
    tx.extend([0; 4]);
    tx.push(1);
    tx.extend([0; 8]);
    put_compact_size(&mut tx, challenge.len() as u64);
    tx.extend(challenge);
    tx.extend([0; 4]);
    sha256d(&tx)
}
