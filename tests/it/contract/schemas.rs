//! Names of schemas in the OpenAPI document: utoipa keeps one of two schemas with the same name, without a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hearthcast::http::openapi;

/// The names of the schemas that a source file declares: those of its types with `ToSchema`, or of `#[schema(as = …)]`.
fn declared_schemas(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut is_schema, mut other_name) = (false, None);
    for line in source.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line.starts_with("#[derive(") && line.contains("ToSchema") {
            is_schema = true;
        }
        if let Some(rest) = line.strip_prefix("#[schema(as = ") {
            other_name = rest.split([',', ')']).next();
        }
        let mut words = line.split([' ', '<', '(', ';']).skip_while(|word| !["struct", "enum"].contains(word));
        if let (Some(_keyword), Some(name)) = (words.next(), words.next()) {
            if is_schema {
                names.push(other_name.unwrap_or(name).to_owned());
            }
            (is_schema, other_name) = (false, None);
        }
    }
    names
}

/// The files of `src/http` that declare each schema.
fn files_of_schemas() -> BTreeMap<String, Vec<PathBuf>> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http")];
    let mut files_of_schemas: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                for name in declared_schemas(&fs::read_to_string(&path).unwrap()) {
                    files_of_schemas.entry(name).or_default().push(path.clone());
                }
            }
        }
    }
    files_of_schemas
}

#[test]
fn schemas_have_names_of_their_own() {
    let declared = files_of_schemas();
    let shared: Vec<_> = declared.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "two schemas with one name; #[schema(as = …)] renames one: {shared:#?}");
    // NewChannel is added to the document without a type.
    let documented = openapi::document()["components"]["schemas"].as_object().unwrap();
    let is_found = |name: &String| name == "NewChannel" || declared.contains_key(name);
    let missed: Vec<&String> = documented.keys().filter(|name| !is_found(name)).collect();
    assert!(missed.is_empty(), "schemas whose types this test does not find: {missed:?}");
}

#[test]
fn schemas_are_found_in_every_form() {
    let source = "#[derive(Serialize, ToSchema)]\n#[schema(as = Other)]\npub(super) struct One {\n}\n\
        #[derive(Clone)]\nstruct Two;\n#[derive(ToSchema)]\n/// Not a struct.\nenum Three {\n}\n\
        #[derive(ToSchema)]\nstruct Four<T>(T);";
    assert_eq!(declared_schemas(source), ["Other", "Three", "Four"]);
}
