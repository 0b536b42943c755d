//! Which sources there are, in the order in which they are tried.

/// A kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceKind {
    /// What loops say that they touch: exact.
    Loops,
    /// Samples by the processor.
    Hardware,
    /// Guards on shared memory.
    Guards,
    /// Userfaults on shared memory.
    Userfaults,
    /// Access rights.
    Rights,
    /// Nothing counts.
    None,
}

impl SourceKind {
    /// All, the best first.
    pub const ORDER: [Self; 6] =
        [Self::Loops, Self::Hardware, Self::Guards, Self::Userfaults, Self::Rights, Self::None];

    /// What the variable `UPM_SOURCE` calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Loops => "loops",
            Self::Hardware => "hardware",
            Self::Guards => "guards",
            Self::Userfaults => "userfaults",
            Self::Rights => "rights",
            Self::None => "none",
        }
    }

    /// The source's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loops => "loop schedules",
            Self::Hardware => "hardware samples",
            Self::Guards => "guards",
            Self::Userfaults => "userfaults",
            Self::Rights => "access rights",
            Self::None => "none",
        }
    }

    /// The one of this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ORDER.into_iter().find(|kind| kind.word() == word)
    }
}
