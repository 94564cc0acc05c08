//! Errors of calls, with the codes of Bitcoin Core (`rpc/protocol.h`).

use serde::Serialize;

/// The request is no call.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// There is no such method.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// Something failed in Apus.
pub(crate) const INTERNAL_ERROR: i32 = -32603;
/// The request is not JSON.
pub(crate) const PARSE_ERROR: i32 = -32700;
/// A parameter is wrong.
pub(crate) const INVALID_PARAMETER: i32 = -8;

/// The error of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct RpcError {
    /// One of Core's codes.
    pub code: i32,
    /// What is wrong.
    pub message: String,
}

impl RpcError {
    /// Creates an error.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
