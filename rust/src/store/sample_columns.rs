//! `DatalogSample` messages as rows: one for each actor, and one for the environment if it got messages.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::store::columns::{Bits, Column, Numbers, Payloads, Texts};
use crate::store::list_columns::{Messages, Rewards};
use crate::store::parquet::file::ParquetFile;
use crate::store::payload::{Form, Forms, Payload};
use crate::store::sample::{Observed, Sample, of_place};
use crate::store::wire::malformed;

/// The environment's name as a sender and a receiver.
pub const ENVIRONMENT: &str = "env";

/// An actor of a trial.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Whether a person plays it.
    pub person: bool,
}

/// What an index says of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Number of the last tick.
    pub ticks: i64,
    /// Sum of the rewards of each actor.
    pub returns: Vec<f64>,
    /// Whether a person rewarded an actor.
    pub people: bool,
    /// The last user that a sample names.
    pub user: String,
    /// Why it ended.
    pub end_reason: String,
    /// Of the first observations, in nanoseconds since the Unix epoch; 0 if they are missing.
    pub first_timestamp: u64,
    /// Of the last ones.
    pub last_timestamp: u64,
}

/// The columns of a trial, which grow with its samples.
#[derive(Debug)]
pub struct SampleColumns {
    trial_id: String,
    actors: Vec<Actor>,
    places: HashMap<String, usize, foldhash::fast::RandomState>,
    forms: Forms,
    samples: i64,
    /// What is known of all samples.
    pub summary: Summary,
    /// Rows since the last row group.
    rows: usize,
    /// About how many bytes these have.
    size: usize,
    limits: Limits,
    columns: Columns,
    file: ParquetFile,
}

/// After how many rows, or bytes, a row group ends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Rows.
    pub rows: usize,
    /// Bytes.
    pub bytes: usize,
}

/// In the order of the file's columns.
#[derive(Debug, Default)]
struct Columns {
    trial_id: Texts,
    sample: Numbers<i64>,
    tick: Numbers<i64>,
    timestamp: Numbers<u64>,
    actor: Texts,
    actor_class: Texts,
    observation: Payloads,
    terminated: Bits,
    truncated: Bits,
    action: Payloads,
    rewards: Rewards,
    messages: Messages,
    user_id: Texts,
    end_reason: Texts,
    stood_in: Bits,
}

impl SampleColumns {
    /// Columns of a trial without samples.
    pub fn new(trial_id: String, actors: Vec<Actor>, limits: Limits) -> Self {
        let mut places: HashMap<_, _, _> = HashMap::default();
        places.insert(ENVIRONMENT.to_owned(), actors.len());
        places.extend(actors.iter().enumerate().map(|(place, actor)| (actor.name.clone(), place)));
        let returns = vec![0.0; actors.len()];
        Self {
            trial_id,
            actors,
            places,
            forms: Forms::default(),
            samples: 0,
            summary: Summary { returns, ..Summary::default() },
            rows: 0,
            size: 0,
            limits,
            columns: Columns::default(),
            file: ParquetFile::default(),
        }
    }

    /// Adds a serialized sample. After an error the columns are not used any more.
    ///
    /// `parse` takes contents apart whose form is new: it returns the form, and the data.
    pub fn add<E: From<Error>>(
        &mut self,
        sample: &[u8],
        parse: &mut impl FnMut(&[u8]) -> Result<(Form, Vec<u8>), E>,
    ) -> Result<(), E> {
        let mut sample = Sample::read(sample, |name| self.places.get(name).copied())?;
        self.count(&sample)?;
        sample.sort();
        let no_contents = Observed::default();
        let observed = sample.observed.as_ref().unwrap_or(&no_contents);
        let mut seen = Vec::with_capacity(observed.contents.len());
        for content in &observed.contents {
            seen.push(self.forms.payload(content, parse)?);
            self.size += content.len();
        }
        for place in 0..self.actors.len() {
            let index = observed.map.get(place);
            let observation = index.map(|index| {
                let index = usize::try_from(*index).ok();
                index
                    .and_then(|index| seen.get(index))
                    .ok_or_else(|| malformed("an actor whose observation is missing"))
            });
            let action = match sample.actions.get(place) {
                Some(content) if !content.is_empty() => {
                    self.size += content.len();
                    Some(self.forms.payload(content, parse)?)
                }
                _ => None,
            };
            self.row(&sample, place, observation.transpose()?, action.as_ref())?;
        }
        let place = self.actors.len();
        if of_place(&sample.messages, place).next().is_some() {
            self.row(&sample, place, None, None)?;
        }
        self.samples += 1;
        if self.rows >= self.limits.rows || self.size >= self.limits.bytes {
            self.end_group()?;
        }
        Ok(())
    }

    /// Takes out the bytes of the file that are complete.
    pub fn take(&mut self) -> Vec<u8> {
        self.file.take()
    }

    /// Ends the file; returns its last bytes.
    pub fn finish(&mut self, metadata: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<u8>> {
        if self.rows > 0 {
            self.end_group()?;
        }
        Ok(self.file.finish(metadata))
    }

    fn end_group(&mut self) -> Result<()> {
        let columns = &mut self.columns;
        let all: [&mut dyn Column; 15] = [
            &mut columns.trial_id,
            &mut columns.sample,
            &mut columns.tick,
            &mut columns.timestamp,
            &mut columns.actor,
            &mut columns.actor_class,
            &mut columns.observation,
            &mut columns.terminated,
            &mut columns.truncated,
            &mut columns.action,
            &mut columns.rewards,
            &mut columns.messages,
            &mut columns.user_id,
            &mut columns.end_reason,
            &mut columns.stood_in,
        ];
        for column in all {
            column.write(&mut self.file)?;
        }
        self.file.end_group(self.rows);
        self.rows = 0;
        self.size = 0;
        Ok(())
    }

    fn count(&mut self, sample: &Sample<'_>) -> Result<()> {
        let summary = &mut self.summary;
        if let Some(observed) = &sample.observed {
            summary.ticks = summary.ticks.max(tick_of(observed)?);
            if observed.timestamp > 0 {
                summary.last_timestamp = observed.timestamp;
                if summary.first_timestamp == 0 {
                    summary.first_timestamp = observed.timestamp;
                }
            }
        }
        for (last, told) in
            [(&mut summary.user, sample.user), (&mut summary.end_reason, sample.end_reason)]
        {
            if !told.is_empty() && last != told {
                told.clone_into(last);
            }
        }
        for (place, reward) in &sample.rewards {
            if let Some(total) = place.and_then(|place| summary.returns.get_mut(place)) {
                *total += f64::from(reward.value);
            }
            if !summary.people {
                let actors = &self.actors;
                summary.people = reward.sources.iter().any(|source| {
                    self.places
                        .get(source.sender)
                        .is_none_or(|place| actors.get(*place).is_some_and(|actor| actor.person))
                });
            }
        }
        Ok(())
    }

    /// Appends the row of an actor, or the environment's, whose place is behind theirs.
    fn row(
        &mut self,
        sample: &Sample<'_>,
        place: usize,
        observation: Option<&Payload<'_>>,
        action: Option<&Payload<'_>>,
    ) -> Result<()> {
        let columns = &mut self.columns;
        let observed = sample.observed.as_ref();
        let is_told = observation.is_some();
        let (name, class) = match self.actors.get(place) {
            Some(actor) => (&actor.name[..], &actor.class[..]),
            None => (ENVIRONMENT, ""),
        };
        columns.trial_id.push(self.trial_id.as_bytes())?;
        columns.sample.push(Some(self.samples));
        columns.tick.push(observed.map(tick_of).transpose()?);
        columns.timestamp.push(observed.filter(|_| is_told).map(|observed| observed.timestamp));
        columns.actor.push(name.as_bytes())?;
        columns.actor_class.push(class.as_bytes())?;
        columns.observation.push(observation.map(parts))?;
        columns.terminated.push(observation.is_some_and(|seen| seen.form.terminated));
        columns.truncated.push(observation.is_some_and(|seen| seen.form.truncated));
        columns.action.push(action.map(parts))?;
        if place < self.actors.len() {
            for reward in of_place(&sample.rewards, place) {
                columns.rewards.push(reward)?;
            }
        }
        columns.rewards.end_row()?;
        for message in of_place(&sample.messages, place) {
            self.size += message.data.len();
            columns.messages.push(message)?;
        }
        columns.messages.end_row()?;
        columns.user_id.push(sample.user.as_bytes())?;
        columns.end_reason.push(sample.end_reason.as_bytes())?;
        columns.stood_in.push(sample.stood_in.binary_search(&(place as u64)).is_ok());
        self.rows += 1;
        Ok(())
    }
}

fn tick_of(observed: &Observed<'_>) -> Result<i64> {
    i64::try_from(observed.tick).map_err(|_| malformed(&format!("tick {}", observed.tick)))
}

fn parts<'a>(payload: &'a Payload<'_>) -> (&'a str, &'a [u64], &'a [u8]) {
    (&payload.form.kind, &payload.form.shape, &payload.data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Actor, Limits, Numbers, SampleColumns};
    use crate::error::Error;
    use crate::store::payload::Form;

    fn columns() -> SampleColumns {
        let actor = |name: &str, person| Actor { name: name.into(), class: "x".into(), person };
        let limits = Limits { rows: 4, bytes: 1 << 20 };
        SampleColumns::new("t".into(), vec![actor("a", false), actor("b", true)], limits)
    }

    #[expect(clippy::unnecessary_wraps, reason = "one of the parsers that can fail")]
    fn as_bytes(content: &[u8]) -> Result<(Form, Vec<u8>), Error> {
        Ok((Form::default(), content.to_vec()))
    }

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    fn reward(receiver: &str, sender: &str) -> Vec<u8> {
        let source = field(1, sender.as_bytes());
        let value = [0x1D, 0, 0, 0, 0x40];
        field(4, &[field(1, receiver.as_bytes()), value.to_vec(), field(4, &source)].concat())
    }

    #[test]
    fn sample_is_a_row_per_actor_and_one_of_the_environment_with_messages() {
        let mut columns = columns();
        let seen = field(3, &field(1, b"seen"));
        let told =
            [&[0x08, 5][..], &[0x11, 9, 0, 0, 0, 0, 0, 0, 0], &seen, &[0x22, 2, 0, 0]].concat();
        let sample = [field(1, b"ann"), field(2, &told), field(5, &field(3, b"env"))].concat();
        columns.add(&sample, &mut as_bytes).unwrap();
        assert_eq!(columns.rows, 3);
        assert_eq!((columns.summary.ticks, columns.summary.last_timestamp), (5, 9));
        assert_eq!(columns.summary.user, "ann");
        assert_eq!(columns.take(), b"PAR1");
        // Timestamps: of actors, not of the environment.
        assert_eq!(columns.columns.timestamp, Numbers::of([Some(9), Some(9), None]));
        assert!(columns.finish(&[]).unwrap().ends_with(b"PAR1"));
        assert_eq!(columns.rows, 0);
    }

    #[test]
    fn forms_are_parsed_once_while_heads_are_equal() {
        let mut columns = columns();
        let mut parsed = 0;
        for data in *b"123" {
            let seen = field(3, &field(1, &[b'h', data]));
            let sample = field(2, &[&seen[..], &[0x22, 1, 0]].concat());
            let parse = &mut |content: &[u8]| {
                parsed += 1;
                let form = Form { kind: "|u1".into(), head: b"h".to_vec(), ..Form::default() };
                Ok::<_, Error>((form, content[1..].to_vec()))
            };
            columns.add(&sample, parse).unwrap();
        }
        assert_eq!(parsed, 1);
        // Two rows per sample, in row groups of four.
        assert_eq!(columns.rows, 2);
        assert!(columns.take().len() > 4);
    }

    #[test]
    fn people_are_client_actors_and_strangers() {
        for (sender, person) in [("env", false), ("a", false), ("b", true), ("ada", true)] {
            let mut columns = columns();
            columns.add(&reward("a", sender), &mut as_bytes).unwrap();
            assert_eq!(columns.summary.people, person, "{sender}");
            assert_eq!(columns.summary.returns, [2.0, 0.0]);
        }
    }

    #[test]
    fn observation_that_is_missing_and_errors_of_the_parser_are_errors() {
        let told = field(2, &[0x22, 1, 3]);
        assert!(columns().add(&told, &mut as_bytes).is_err());
        let refuse = &mut |_: &[u8]| Err(Error::State("refused".into()));
        let told = field(2, &[&field(3, b"")[..], &[0x22, 1, 0]].concat());
        assert!(columns().add(&told, refuse).is_err());
    }

    proptest! {
        #[test]
        fn bytes_of_others_are_refused_or_become_rows(samples: Vec<Vec<u8>>) {
            let mut columns = columns();
            for sample in &samples {
                if columns.add(sample, &mut as_bytes).is_err() {
                    break;
                }
            }
            columns.take();
        }
    }
}
