//! Every call, with right and wrong parameters, over HTTP to a bitcoind and to Apus on the same
//! directory: the same replies, but for a short list of differences. `make judge` builds bitcoind
//! and sets BITCOIND; without that, these tests say that they are skipped.

mod bitcoind;
mod calls;
mod coin_calls;
mod compare;
mod daemon;
mod descriptor_calls;
mod frames;
mod http;
mod rest_calls;
mod scan_calls;
mod script_calls;
mod worlds;
