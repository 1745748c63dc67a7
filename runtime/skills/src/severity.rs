//! How bad it is when a pattern applies.

/// How bad it is when a pattern applies, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatternSeverity {
    /// Someone can lose everything by it.
    Critical,
    /// Someone can lose much by it.
    High,
    /// It hurts under conditions.
    Medium,
    /// It is untidy and may hurt later.
    Low,
    /// It is worth knowing.
    Info,
}

impl PatternSeverity {
    /// All severities, the worst first.
    pub const ALL: [Self; 5] = [Self::Critical, Self::High, Self::Medium, Self::Low, Self::Info];

    /// Its name, as written in a pattern file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Info => "info",
        }
    }

    /// The severity of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|severity| severity.name() == name)
    }
}
