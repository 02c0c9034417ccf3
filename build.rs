//! Cuts the docstrings of `python/cogrs/_core.pyi` into files, from which the bindings include them by
//! `stub_doc!`: what `help` shows is the stub's text, and a docstring that is missing there fails the build.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

const STUB: &str = "python/cogrs/_core.pyi";
const QUOTES: &str = "\"\"\"";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={STUB}");
    if env::var_os("CARGO_FEATURE_PYTHON").is_none() {
        return Ok(());
    }
    let folder = Path::new(&env::var("OUT_DIR")?).join("stub");
    // Not to find what an older stub had.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for (name, text) in docstrings(&fs::read_to_string(STUB)?)? {
        fs::write(folder.join(name + ".txt"), text)?;
    }
    Ok(())
}

/// The docstrings of the module (`_core`), its functions, its classes, and their members (`Class.member`).
///
/// This reads the form that `ruff format` gives a stub: a docstring opens a line after its `def` or `class`.
fn docstrings(stub: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut class = String::new();
    // Whose docstring a line may open.
    let mut owner = Some("_core".to_owned());
    let mut lines = stub.lines();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(rest) = text.strip_prefix("class ") {
            class = identifier(rest);
            owner = Some(class.clone());
        } else if let Some(rest) = text.strip_prefix("def ") {
            let name = identifier(rest);
            owner = Some(if indent == 0 { name } else { format!("{class}.{name}") });
        }
        if text.ends_with("...") {
            owner = None;
        }
        let Some(opening) = text.strip_prefix(QUOTES) else { continue };
        let mut body = vec![opening];
        while !body[body.len() - 1].contains(QUOTES) {
            let line = lines.next().ok_or(format!("{STUB}: a docstring does not end"))?;
            body.push(line.get(indent..).unwrap_or_default());
        }
        let whole = body.join("\n");
        let whole = whole.trim_end().trim_end_matches(QUOTES).trim_end();
        if whole.contains('\\') {
            return Err(format!("{STUB}: a docstring has a backslash, whose meaning is Python's"));
        }
        found.extend(owner.take().map(|owner| (owner, whole.to_owned())));
    }
    Ok(found)
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect()
}
