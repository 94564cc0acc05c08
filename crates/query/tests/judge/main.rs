//! Every call, with right and wrong parameters, to a bitcoind and to Apus on the same directory:
//! the same answers, but for a short list of differences. `make judge` builds bitcoind and sets
//! BITCOIND; without that, these tests say that they are skipped.

mod bitcoind;
mod calls;
mod compare;
mod daemon;
mod rest_calls;
mod worlds;
