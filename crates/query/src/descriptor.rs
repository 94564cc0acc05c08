//! `getdescriptorinfo`: what a descriptor is.

use apus_descriptors::{Descriptor, checksum};
use serde::Serialize;

use super::error::{RPC_INVALID_ADDRESS_OR_KEY, RpcError};
use super::json::{Json, json};
use super::params;
use super::source::Call;

#[derive(Serialize)]
struct Info {
    descriptor: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    multipath_expansion: Vec<String>,
    checksum: String,
    isrange: bool,
    issolvable: bool,
    hasprivatekeys: bool,
}

/// `getdescriptorinfo`.
pub fn getdescriptorinfo(call: &Call) -> Result<Json, RpcError> {
    let refused = |error| RpcError::new(RPC_INVALID_ADDRESS_OR_KEY, error);
    let text = params::text(call.param(0))?;
    let descriptor = Descriptor::parse(text, call.source.chain()).map_err(refused)?;
    let texts = descriptor.texts();
    Ok(json(&Info {
        descriptor: texts[0].clone(),
        multipath_expansion: if texts.len() > 1 { texts } else { Vec::new() },
        checksum: checksum(descriptor.payload()).expect("it was parsed"),
        isrange: descriptor.is_range(),
        issolvable: descriptor.is_solvable(),
        hasprivatekeys: false,
    }))
}
