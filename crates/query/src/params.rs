//! The parameters of calls: which there are, and how they are read, with Bitcoin Core's errors.

use apus_hash::Hash;
use serde_json::Value;

use super::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RPC_TYPE_ERROR, RpcError};

/// A parameter of a method (Core's `RPCArg`).
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// Its name; several, divided by `|`.
    pub names: &'static str,
    /// The type of its value.
    pub kind: ArgKind,
    /// Whether it may be left out.
    pub optional: bool,
    /// The fields of an object that may be given by name, as if they were parameters.
    pub fields: &'static [&'static str],
}

/// The type of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// An array.
    Array,
    /// An object.
    Object,
    /// Any of several types, which the method checks itself.
    Any,
}

impl ArgKind {
    /// Returns the name of the type; `None` for any.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Text => "string",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::Array => "array",
            Self::Object => "object",
            Self::Any => return None,
        })
    }
}

impl Arg {
    /// Returns a parameter that must be given.
    pub const fn needed(names: &'static str, kind: ArgKind) -> Self {
        Self { names, kind, optional: false, fields: &[] }
    }

    /// Returns a parameter that may be left out.
    pub const fn optional(names: &'static str, kind: ArgKind) -> Self {
        Self { names, kind, optional: true, fields: &[] }
    }

    /// Returns this object, with the fields that may be given by name.
    pub const fn with_fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }

    /// Returns the parameter in the line that shows how a method is called.
    fn shown(&self) -> String {
        let name = self.names.split('|').next().unwrap_or_default();
        match self.kind {
            ArgKind::Text => format!("\"{name}\""),
            ArgKind::Array => format!("[{name},...]"),
            ArgKind::Object => format!("{{{name}}}"),
            ArgKind::Number | ArgKind::Bool | ArgKind::Any => name.to_string(),
        }
    }
}

/// Returns how a method is called, in one line: `getblockheader "blockhash" ( verbose )`.
pub fn usage(method: &str, args: &[Arg]) -> String {
    let mut line = method.to_string();
    let (needed, optional): (Vec<&Arg>, _) = args.iter().partition(|arg| !arg.optional);
    needed.iter().for_each(|arg| line += &format!(" {}", arg.shown()));
    if !optional.is_empty() {
        let shown: Vec<String> = optional.iter().map(|arg: &&Arg| arg.shown()).collect();
        line += &format!(" ( {} )", shown.join(" "));
    }
    line
}

/// Checks the number and the types of the parameters that a method was called with. `help` is the
/// message if there are too few or too many.
///
/// # Errors
/// The number or a type is wrong.
pub fn check_args(help: &str, args: &[Arg], params: &[Value]) -> Result<(), RpcError> {
    let needed = args.iter().rposition(|arg| !arg.optional).map_or(0, |last| last + 1);
    if !(needed..=args.len()).contains(&params.len()) {
        return Err(RpcError::new(RPC_MISC_ERROR, help));
    }
    let mut wrong = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        let value = params.get(index).unwrap_or(&Value::Null);
        let Some(expected) = arg.kind.name() else { continue };
        if type_name(value) != expected && !(arg.optional && value.is_null()) {
            let at = format!("Position {} ({})", index + 1, arg.names);
            wrong.push(format!("    \"{at}\": \"{}\"", mismatch(value, expected)));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        let message = format!("Wrong type passed:\n{{\n{}\n}}", wrong.join(",\n"));
        Err(RpcError::new(RPC_TYPE_ERROR, message))
    }
}

/// Returns the name of a value's type (Core's `uvTypeName`).
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
    }
}

fn mismatch(value: &Value, expected: &str) -> String {
    format!("JSON value of type {} is not of expected type {expected}", type_name(value))
}

fn wrong_type(value: &Value, expected: &str) -> RpcError {
    RpcError::new(RPC_TYPE_ERROR, mismatch(value, expected))
}

/// A field of an object: its name, and the type of its value.
pub(super) type Field = (&'static str, ArgKind);

/// Checks the names and the types of an object's fields (Core's `RPCTypeCheckObj`). The expected
/// fields are in alphabetical order.
///
/// # Errors
/// It is no object, a field has another type or is not expected, or, unless `may_lack`, is missing.
pub(super) fn check_fields(
    value: &Value,
    expected: &[Field],
    may_lack: bool,
) -> Result<(), RpcError> {
    let fields = value.as_object().ok_or_else(|| wrong_type(value, "object"))?;
    let wrong = |what: String| Err(RpcError::new(RPC_TYPE_ERROR, what));
    for (name, kind) in expected {
        let found = fields.get(*name).unwrap_or(&Value::Null);
        match (found.is_null(), kind.name()) {
            (true, _) if may_lack => {}
            (true, _) => return wrong(format!("Missing {name}")),
            (false, Some(expected)) if type_name(found) != expected => {
                let found = type_name(found);
                return wrong(format!(
                    "JSON value of type {found} for field {name} is not of expected type {expected}"
                ));
            }
            _ => {}
        }
    }
    match fields.keys().find(|name| expected.iter().all(|(known, _)| known != name)) {
        Some(name) => wrong(format!("Unexpected key {name}")),
        None => Ok(()),
    }
}

/// Reads a string (Core's `get_str`).
///
/// # Errors
/// It is none.
pub fn text(value: &Value) -> Result<&str, RpcError> {
    value.as_str().ok_or_else(|| wrong_type(value, "string"))
}

/// Reads true or false (Core's `get_bool`).
///
/// # Errors
/// It is neither.
pub fn boolean(value: &Value) -> Result<bool, RpcError> {
    value.as_bool().ok_or_else(|| wrong_type(value, "bool"))
}

/// Reads an array (Core's `get_array`).
///
/// # Errors
/// It is none.
pub fn array(value: &Value) -> Result<&[Value], RpcError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| wrong_type(value, "array"))
}

/// Reads an integer (Core's `getInt`).
///
/// # Errors
/// It is not a number, not an integer, or out of the range of `T`.
pub fn integer<T: TryFrom<i64>>(value: &Value) -> Result<T, RpcError> {
    if !value.is_number() {
        return Err(wrong_type(value, "number"));
    }
    // `serde_json` reads `-0` as a fraction; to Core it is an integer, where one may be negative.
    let is_negative_zero = value.as_f64().is_some_and(|it| it == 0.0 && it.is_sign_negative());
    let zero = (is_negative_zero && T::try_from(-1).is_ok()).then_some(0);
    let number = value.as_i64().or(zero).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| RpcError::new(RPC_MISC_ERROR, "JSON integer out of range"))
}

/// Reads how much detail is asked for, where true stands for 1 (Core's `ParseVerbosity`).
///
/// # Errors
/// It is neither an integer nor true or false.
pub fn verbosity(value: &Value, default: i32) -> Result<i32, RpcError> {
    match value {
        Value::Null => Ok(default),
        Value::Bool(verbose) => Ok(i32::from(*verbose)),
        other => integer(other),
    }
}

/// Reads a hash (Core's `ParseHashV`); `name` names it in an error.
///
/// # Errors
/// It is not a string of 64 hex digits.
pub fn hash(value: &Value, name: &str) -> Result<Hash, RpcError> {
    let text = text(value)?;
    text.parse().map_err(|_| {
        let message = match text.len() {
            64 => format!("{name} must be hexadecimal string (not '{text}')"),
            len => format!("{name} must be of length 64 (not {len}, for '{text}')"),
        };
        RpcError::new(RPC_INVALID_PARAMETER, message)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARGS: &[Arg] = &[
        Arg::needed("blockhash", ArgKind::Text),
        Arg::optional("verbosity|verbose", ArgKind::Any),
        Arg::optional("limit", ArgKind::Number),
    ];

    #[test]
    fn the_number_and_the_types_are_checked() {
        let check = |params: Value| check_args("help", ARGS, params.as_array().unwrap());
        assert_eq!(check(json!(["a"])), Ok(()));
        assert_eq!(check(json!(["a", true, null])), Ok(()));
        let wrong = |params| check(params).unwrap_err();
        assert_eq!(wrong(json!([])), RpcError::new(-1, "help"));
        assert_eq!(wrong(json!(["a", 1, 2, 3])), RpcError::new(-1, "help"));
        let message = "Wrong type passed:\n{\n    \"Position 1 (blockhash)\": \"JSON value of type \
                       null is not of expected type string\",\n    \"Position 3 (limit)\": \"JSON \
                       value of type array is not of expected type number\"\n}";
        assert_eq!(wrong(json!([null, 1, []])), RpcError::new(-3, message));
        assert_eq!(usage("getblock", ARGS), "getblock \"blockhash\" ( verbosity limit )");
    }

    #[test]
    fn values_are_read_with_cores_errors() {
        let code = |value: Value| integer::<i32>(&value).map_err(|error| error.code);
        assert_eq!(code(json!(-7)), Ok(-7));
        assert_eq!((code(json!(1.0)), code(json!(1_u64 << 31))), (Err(-1), Err(-1)));
        assert_eq!((code(json!(0.0)), code(serde_json::from_str("-0").unwrap())), (Err(-1), Ok(0)));
        assert!(integer::<u32>(&json!(-0.0)).is_err());
        assert_eq!(code(json!("7")), Err(-3));
        assert_eq!(verbosity(&json!(true), 3), Ok(1));
        assert_eq!(verbosity(&Value::Null, 3), Ok(3));
        let message = |text: &str| hash(&json!(text), "hash").unwrap_err().message;
        assert_eq!(message("ab"), "hash must be of length 64 (not 2, for 'ab')");
        let odd = "z".repeat(64);
        assert_eq!(message(&odd), format!("hash must be hexadecimal string (not '{odd}')"));
    }
}
