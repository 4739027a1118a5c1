//! Validates JSON against JSON Schema, as far as our OpenAPI document uses it.

use serde_json::Value;

/// Violations of `schema` in `value`. Properties that the schema does not name are violations, too, because the document must
/// be complete.
/// document is to be whole.
pub fn violations(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(document, schema, value, "$", true, &mut faults);
    faults
}

fn check(document: &Value, schema: &Value, value: &Value, location: &str, is_closed: bool, faults: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("references stay inside the document");
        let target = document.pointer(pointer).unwrap_or_else(|| panic!("{reference} cannot be resolved"));
        return check(document, target, value, location, is_closed, faults);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(document, part, value, location, false, faults);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let fits = choices.iter().any(|part| {
                let mut inner = Vec::new();
                check(document, part, value, location, is_closed, &mut inner);
                inner.is_empty()
            });
            if !fits {
                faults.push(format!("{location}: {value} fits none of {choice}"));
            }
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| has_type(name, value)) {
        faults.push(format!("{location}: {value} is not one of {types:?}"));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        faults.push(format!("{location}: {value} is not among the documented values"));
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (index, item) in list.iter().enumerate() {
            check(document, items, item, &format!("{location}[{index}]"), true, faults);
        }
    }
    let Some(object) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            faults.push(format!("{location}: {name} is missing"));
        }
    }
    let Some(properties) = schema["properties"].as_object() else { return };
    for (name, value) in object {
        match properties.get(name) {
            Some(property) => check(document, property, value, &format!("{location}.{name}"), true, faults),
            None if is_closed && schema.get("additionalProperties").is_none() && schema.get("allOf").is_none() => {
                faults.push(format!("{location}: {name} is not documented"));
            }
            None => {}
        }
    }
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is not a JSON type"),
    }
}
