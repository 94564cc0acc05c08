//! Errors, with Bitcoin Core's codes.

use std::fmt::Display;

use apus_node::error::SyncError;

/// An error of a remote procedure call, with Bitcoin Core's code and message (`JSONRPCError`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// The code, one of the constants below.
    pub code: i32,
    pub message: String,
}

/// Anything without a code of its own.
pub const RPC_MISC_ERROR: i32 = -1;
/// A value of another type was expected.
pub const RPC_TYPE_ERROR: i32 = -3;
/// There is no such block, transaction or address.
pub const RPC_INVALID_ADDRESS_OR_KEY: i32 = -5;
/// Bytes cannot be decoded.
pub const RPC_DESERIALIZATION_ERROR: i32 = -22;
/// A parameter is missing or out of range.
pub const RPC_INVALID_PARAMETER: i32 = -8;
/// The program is about to stop.
pub const RPC_CLIENT_NOT_CONNECTED: i32 = -9;
/// The directory is not open yet.
pub const RPC_IN_WARMUP: i32 = -28;
/// The directory is damaged, or there is a bug in Apus.
pub const RPC_INTERNAL_ERROR: i32 = -32603;

/// Returns the error for a directory that is damaged, or that cannot be read.
pub fn internal(error: impl Display) -> RpcError {
    RpcError::new(RPC_INTERNAL_ERROR, error)
}

impl From<SyncError> for RpcError {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::Stopped => Self::stopped(),
            other => internal(other),
        }
    }
}

impl RpcError {
    pub fn new(code: i32, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// Returns the error for a call that ends early because the program is about to stop.
    pub fn stopped() -> Self {
        Self::new(RPC_CLIENT_NOT_CONNECTED, "Shutting down")
    }
}
