//! The names of schedule modes in request and response bodies.

use crate::domain::schedule::ScheduleMode;
use crate::error::{Error, Result};

const MODES: [(&str, ScheduleMode); 5] = [
    ("sequential", ScheduleMode::Sequential),
    ("shuffle", ScheduleMode::Shuffle),
    ("shuffleInOrder", ScheduleMode::ShuffleInOrder),
    ("random", ScheduleMode::Random),
    ("weighted", ScheduleMode::Weighted),
];

pub fn mode_name(mode: ScheduleMode) -> &'static str {
    MODES.iter().find(|(_, candidate)| *candidate == mode).map_or("blocks", |(name, _)| name)
}

pub fn parse_mode(name: &str) -> Result<ScheduleMode> {
    if name == "blocks" {
        return Ok(ScheduleMode::Blocks);
    }
    let names = MODES.map(|(name, _)| name).join(", ");
    parse_order(name).ok_or_else(|| Error::invalid_field("scheduleMode", format!("must be one of {names}, blocks")))
}

/// Parses a `scheduleMode` other than `blocks`.
pub fn parse_order(name: &str) -> Option<ScheduleMode> {
    MODES.iter().find(|(candidate, _)| *candidate == name).map(|(_, mode)| *mode)
}
