//! All that is wrong with a request, told at once.

/// Violations told to the caller at most; the rest is counted.
const MAX_KEPT: usize = 20;

/// One field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, as in BadRequest: `audience.users.user_ids[3]`.
    pub field: String,
    /// What is wrong and what is expected.
    pub description: String,
}

/// All that is wrong with a request.
#[derive(Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    count: usize,
}

impl Violations {
    /// One violation.
    pub fn one(field: &str, description: impl Into<String>) -> Self {
        let mut violations = Self::default();
        violations.add(field, description);
        violations
    }

    /// `field` is only made a string where it is kept: a request may have a hundred thousand wrong ones.
    #[allow(clippy::needless_pass_by_value)] // a literal or format_args! at every caller
    pub fn add(&mut self, field: impl std::fmt::Display, description: impl Into<String>) {
        self.count += 1;
        if self.kept.len() < MAX_KEPT {
            self.kept.push(Violation { field: field.to_string(), description: description.into() });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The same of a field that holds all of these.
    pub fn within(mut self, field: &str) -> Self {
        for violation in &mut self.kept {
            violation.field = format!("{field}.{}", violation.field);
        }
        self
    }

    /// The first of them.
    pub fn kept(&self) -> &[Violation] {
        &self.kept
    }

    /// The first one.
    pub fn into_first(self) -> Option<Violation> {
        self.kept.into_iter().next()
    }

    /// The first one, and how many more there are.
    pub fn summary(&self) -> String {
        let first = self.kept.first().map_or_else(String::new, |v| format!("{}: {}", v.field, v.description));
        match self.count {
            0 | 1 => first,
            2 => format!("{first} (and 1 more problem)"),
            count => format!("{first} (and {} more problems)", count - 1),
        }
    }
}
