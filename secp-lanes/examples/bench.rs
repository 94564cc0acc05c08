//! Prints nanoseconds per signature, by kernel and kind, beside libsecp256k1 in the same run. With
//! names of kernels (Avx512, AvxIfma, Avx2Doubles, Avx2, Neon, Library, Portable) as arguments, it
//! measures only those; `--features testing` has all of them.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use secp_lanes::{Batch, Kernel, Options, Verdict};
use secp256k1::{Keypair, Message, SECP256K1, Scalar, SecretKey};

/// Number of signatures of each kind.
const COUNT: usize = 512;
/// Number of runs of each kernel with each kind. Runs are short, so that on a busy machine some are
/// not interrupted.
const ROUNDS: usize = 50;

struct Signed {
    key: [u8; 33],
    der: Vec<u8>,
    schnorr: [u8; 64],
    message: [u8; 32],
    tweak: [u8; 32],
    output: [u8; 32],
    odd: bool,
}

fn signed(number: usize) -> Signed {
    let mut secret = [0x5a; 32];
    secret[..8].copy_from_slice(&(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let key = SecretKey::from_slice(&secret).expect("a key");
    let mut message = secret;
    message.reverse();
    let digest = Message::from_digest(message);
    let pair = Keypair::from_secret_key(SECP256K1, &key);
    let scalar = Scalar::from_be_bytes(message).expect("below n");
    let (output, parity) = pair.x_only_public_key().0.add_tweak(SECP256K1, &scalar).expect("a key");
    Signed {
        key: key.public_key(SECP256K1).serialize(),
        der: SECP256K1.sign_ecdsa(&digest, &key).serialize_der().to_vec(),
        schnorr: SECP256K1.sign_schnorr_no_aux_rand(&digest, &pair).serialize(),
        message,
        tweak: message,
        output: output.serialize(),
        odd: parity == secp256k1::Parity::Odd,
    }
}

fn push(batch: &mut Batch, signed: &Signed, kind: &str) {
    let xonly = signed.key[1..].try_into().expect("32 bytes");
    match kind {
        "ECDSA" => batch.push_ecdsa(&signed.key, &signed.der, &signed.message),
        "BIP340" => batch.push_schnorr(xonly, &signed.schnorr, &signed.message),
        _ => batch.push_tweak(xonly, &signed.tweak, &signed.output, signed.odd),
    };
}

fn main() -> ExitCode {
    match table(&mut io::stdout()) {
        // With a broken pipe, the reader has read enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes the table of the kernels named by the arguments.
fn table(out: &mut impl Write) -> io::Result<()> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let kernels = Kernel::ALL.map(|kernel| (kernel, format!("{kernel:?}")));
    if let Some(unknown) = named.iter().find(|name| !kernels.iter().any(|(_, k)| k == *name)) {
        let names = kernels.map(|(_, name)| name).join(", ");
        let error = format!("no kernel {unknown}: expected one of {names}");
        return Err(io::Error::new(ErrorKind::InvalidInput, error));
    }
    let all: Vec<Signed> = (0..COUNT).map(signed).collect();
    let mut rows = Vec::new();
    for (kernel, name) in kernels {
        if !named.is_empty() && !named.contains(&name) {
            continue;
        }
        if let Err(error) = kernel.check() {
            writeln!(out, "{name}: {error}")?;
            continue;
        }
        rows.extend(["ECDSA", "BIP340", "tweak"].map(|kind| Row::new(kernel, kind)));
    }
    // By turns, so that a slow moment of the machine does not meet one kernel only.
    for _ in 0..ROUNDS {
        for row in &mut rows {
            row.measure(&all);
        }
    }
    writeln!(
        out,
        "ns a signature                 all | parse  scalars  tables+comb  ladder  equation"
    )?;
    rows.iter().try_for_each(|row| row.write(out))
}

/// The measurement of a kernel with signatures of a kind: the best of all runs.
struct Row {
    kernel: Kernel,
    kind: &'static str,
    batch: Batch,
    count: usize,
    time: Duration,
    parse: Duration,
    stages: [Duration; 4],
}

impl Row {
    fn new(kernel: Kernel, kind: &'static str) -> Self {
        let count = match kernel {
            Kernel::Portable => COUNT / 16,
            Kernel::Library => COUNT / 4,
            _ => COUNT,
        };
        Self {
            kernel,
            kind,
            batch: Batch::new(Options { kernel: Some(kernel), ..Options::default() }),
            count,
            time: Duration::MAX,
            parse: Duration::ZERO,
            stages: [Duration::ZERO; 4],
        }
    }

    fn measure(&mut self, signed: &[Signed]) {
        let before = self.batch.stages();
        let start = Instant::now();
        for signed in &signed[..self.count] {
            push(&mut self.batch, signed, self.kind);
        }
        let parse = start.elapsed();
        assert!(self.batch.verify().iter().all(|verdict| *verdict == Verdict::Valid));
        let time = start.elapsed();
        if time < self.time {
            let stages = self.batch.stages();
            self.time = time;
            self.parse = parse;
            self.stages = std::array::from_fn(|i| stages[i] - before[i]);
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let each = |time: Duration| time.as_nanos() / self.count as u128;
        let [scalars, tables, ladder, equation] = self.stages.map(each);
        writeln!(
            out,
            "{:>11} {:>7} {:>16} | {:>5} {scalars:>8} {tables:>12} {ladder:>7} {equation:>9}",
            format!("{:?}", self.kernel),
            self.kind,
            each(self.time),
            each(self.parse),
        )
    }
}
