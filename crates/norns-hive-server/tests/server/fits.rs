//! Whether messages have the form that openapi.json says: the part of JSON Schema that it uses.

use serde_json::Value;

pub struct Description(Value);

impl Description {
    pub fn new(text: &str) -> Self {
        Self(serde_json::from_str(text).expect("the description is JSON"))
    }

    #[track_caller]
    pub fn answer(&self, method: &str, path: &str, status: &str, text: &str) {
        let answer = &self.0["paths"][path][method]["responses"][status];
        self.check(answer, path, text);
    }

    #[track_caller]
    pub fn request(&self, path: &str, text: &str) {
        self.check(&self.0["paths"][path]["post"]["requestBody"], path, text);
    }

    #[track_caller]
    fn check(&self, described: &Value, path: &str, text: &str) {
        let schema = &described["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{path} has no schema");
        let value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{path}: {text}"));
        if let Some(problem) = self.problem(schema, &value) {
            panic!("{path}: {problem} in {text}");
        }
    }

    /// What does not fit, if anything.
    fn problem(&self, schema: &Value, value: &Value) -> Option<String> {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().expect("a reference has a name");
            let schema = &self.0["components"]["schemas"][name];
            assert!(schema.is_object(), "no schema {name}");
            return self
                .problem(schema, value)
                .map(|problem| format!("{name}: {problem}"));
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            let fits = choices
                .iter()
                .filter(|choice| self.problem(choice, value).is_none())
                .count();
            return (fits != 1).then(|| format!("{fits} choices fit {value}"));
        }
        let fixed = schema.get("const").is_some_and(|only| only != value);
        let listed = schema["enum"]
            .as_array()
            .is_some_and(|all| !all.contains(value));
        if fixed || listed || !has_type(&schema["type"], value) {
            return Some(format!("{value} is not {schema}"));
        }
        if let Some(items) = schema.get("items") {
            let mut values = value.as_array().into_iter().flatten();
            return values.find_map(|value| self.problem(items, value));
        }
        let object = value.as_object()?;
        let mut required = schema["required"].as_array().into_iter().flatten();
        if let Some(missing) =
            required.find(|name| !object.contains_key(name.as_str().unwrap_or("")))
        {
            return Some(format!("{missing} is missing"));
        }
        object
            .iter()
            .find_map(|(name, value)| match schema["properties"].get(name) {
                Some(schema) => self
                    .problem(schema, value)
                    .map(|problem| format!("{name}: {problem}")),
                // What is sent and not described would be a surprise for whoever reads the description.
                None => schema
                    .get("additionalProperties")
                    .is_none_or(|more| more == false)
                    .then(|| format!("{name} is not described")),
            })
    }
}

fn has_type(types: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the description has an unknown type {other}"),
    };
    match types {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}
