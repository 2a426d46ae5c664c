//! The kinds of text that the schema names by `format`, and the types that check them.

use std::str::FromStr;

use stile_host::CpuList;

use super::types::PolicyConfig;
use super::values::{
    CapPeriod, FilePath, HaltPoll, ImageRef, MemorySize, Name, PolicyTime, Span, StarvationBound, StationAddress,
    TapName, ValueError,
};

/// Checks `text` as the kind of value that the schema calls `format`; `None` if the schema means something else.
pub(super) fn check_format(format: &str, text: &str) -> Option<Result<(), ValueError>> {
    Some(match format {
        PolicyTime::FORMAT => PolicyTime::from_str(text).map(drop),
        Span::FORMAT => Span::from_str(text).map(drop),
        HaltPoll::FORMAT => HaltPoll::from_str(text).map(drop),
        StarvationBound::FORMAT => StarvationBound::from_str(text).map(drop),
        CapPeriod::FORMAT => CapPeriod::from_str(text).map(drop),
        MemorySize::FORMAT => MemorySize::from_str(text).map(drop),
        Name::FORMAT => Name::from_str(text).map(drop),
        ImageRef::FORMAT => ImageRef::from_str(text).map(drop),
        StationAddress::FORMAT => StationAddress::from_str(text).map(drop),
        TapName::FORMAT => TapName::from_str(text).map(drop),
        FilePath::FORMAT => FilePath::from_str(text).map(drop),
        CpuList::FORMAT => CpuList::from_str(text)
            .map(drop)
            .map_err(|error| ValueError { wrong: error.wrong(), accepted: CpuList::ACCEPTED.to_owned() }),
        PolicyConfig::FORMAT => PolicyConfig::from_str(text).map(drop).map_err(ValueError::from),
        _ => return None,
    })
}
