//! Parameters by name, put into the places that a method has for them (Core's
//! `transformNamedArguments`).

use apus_query::RpcError;
use apus_query::error::RPC_INVALID_PARAMETER;
use apus_query::params::Arg;
use serde_json::{Map, Value};

pub(crate) fn by_place(given: Vec<(String, Value)>, args: &[Arg]) -> Result<Vec<Value>, RpcError> {
    let wrong = |what: String| Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    let mut left: Vec<(String, Value)> = Vec::new();
    for (name, value) in given {
        if left.iter().any(|(known, _)| *known == name) {
            return wrong(format!("Parameter {name} specified multiple times"));
        }
        left.push((name, value));
    }
    let mut take = |names: &str| {
        let at = names.split('|').find_map(|name| left.iter().position(|(it, _)| it == name))?;
        Some(left.remove(at))
    };
    let mut places = Vec::new();
    let mut options = Map::new();
    // Places that are skipped become null once a later one is given.
    let mut hole = 0;
    let mut first_hole = 0;
    let mut first = None;
    for Arg { names, fields, .. } in args {
        options.extend(fields.iter().filter_map(|field| take(field)));
        let found = take(names);
        if options.is_empty() && found.is_none() {
            hole += 1;
            if places.is_empty() {
                first_hole = hole;
            }
            continue;
        }
        places.extend(std::iter::repeat_n(Value::Null, std::mem::take(&mut hole)));
        first = first.or(Some(*names));
        if let Some((name, value)) = found {
            if let Some(option) = options.keys().next() {
                return wrong(format!("Parameter {name} conflicts with parameter {option}"));
            }
            places.push(value);
        }
        if !options.is_empty() {
            places.push(Value::Object(std::mem::take(&mut options)));
        }
    }
    if let Some((_, Value::Array(mut before))) = take("args") {
        if let Some(first) = first.filter(|_| first_hole < before.len()) {
            return wrong(format!(
                "Parameter {first} specified twice both as positional and named argument"
            ));
        }
        before.extend(places.into_iter().skip(before.len()));
        places = before;
    }
    match left.first() {
        Some((name, _)) => wrong(format!("Unknown named parameter {name}")),
        None => Ok(places),
    }
}

#[cfg(test)]
mod tests {
    use apus_query::params::ArgKind;
    use serde_json::json;

    use super::*;

    const ARGS: [Arg; 3] = [
        Arg::optional("a", ArgKind::Any),
        Arg::optional("b|bb", ArgKind::Any),
        Arg::optional("options", ArgKind::Object).with_fields(&["x"]),
    ];

    fn places(given: Value) -> Result<Value, String> {
        let Value::Object(given) = given else { panic!("{given}") };
        let given = given.into_iter().collect();
        by_place(given, &ARGS).map(Value::Array).map_err(|error| error.message)
    }

    #[test]
    fn names_lead_to_places() {
        for (given, expected) in [
            (json!({}), json!([])),
            (json!({"a": 1}), json!([1])),
            (json!({"bb": 2}), json!([null, 2])),
            (json!({"a": 1, "x": 3}), json!([1, null, {"x": 3}])),
            (json!({"args": [1], "b": 2}), json!([1, 2])),
            (json!({"args": [1, 2, 3, 4]}), json!([1, 2, 3, 4])),
            (json!({"args": [1], "options": 5}), json!([1, null, 5])),
            (json!({"args": 1}), json!([])),
        ] {
            assert_eq!(places(given.clone()), Ok(expected), "{given}");
        }
    }

    #[test]
    fn wrong_names_are_refused_in_the_words_of_core() {
        for (given, expected) in [
            (json!({"c": 1}), "Unknown named parameter c"),
            (json!({"b": 1, "bb": 1}), "Unknown named parameter bb"),
            (json!({"x": 1, "options": 1}), "Parameter options conflicts with parameter x"),
            (
                json!({"args": [1], "a": 1}),
                "Parameter a specified twice both as positional and named argument",
            ),
        ] {
            assert_eq!(places(given.clone()).unwrap_err(), expected, "{given}");
        }
        let twice = vec![("a".to_string(), json!(1)), ("a".to_string(), json!(2))];
        let error = by_place(twice, &ARGS).unwrap_err();
        assert_eq!(error.message, "Parameter a specified multiple times");
    }
}
