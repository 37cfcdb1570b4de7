//! Pieces of generated Rust.

/// A method of a generated enum that gives a text for each variant.
pub(super) fn method(name: &str, about: &str, arms: &str) -> String {
    format!(
        "    /// {about}\n    pub const fn {name}(self) -> &'static str {{\n        \
         match self {{\n{arms}        }}\n    }}\n"
    )
}

/// The value of adjacent C string literals. The list uses no escapes.
pub(super) fn literal(text: &str) -> String {
    text.split('"').skip(1).step_by(2).collect()
}

pub(super) fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_string() + &rest.to_lowercase()
        })
        .collect()
}

pub(super) fn sentence(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}
