//! Files of memories: most of them sound, so that they are loaded; the others wrong in one place or several.

use cogrs::replay::rate_limiter::{ErrorBuffer, RateLimiter};
use cogrs::replay::recurrent::RecurrentSpec;
use cogrs::replay::sampler::Sampler;
use cogrs::replay::sequence_window::{Border, EpisodeLength, SequenceShape};
use cogrs::replay::settings::{FLAGS, FramePadding, NewPriority, Remover, Settings};
use cogrs::replay::view::ViewSettings;
use cogrs::spec::{EntrySpec, FIELDS, FieldSpec};
use serde::Serialize;

use crate::MOST;
use crate::source::Source;

/// The largest number of draws that an entry's count has.
const MANY_TIMES: u32 = 300;

#[derive(Debug, Serialize)]
pub struct Episode {
    pub serial: u64,
    pub length: u32,
    pub settings: u32,
    pub values: bool,
    pub weights: bool,
    pub bootstrap: Option<Vec<f64>>,
    pub final_state: bool,
}

impl Episode {
    fn actions(&self) -> usize {
        (self.length as usize).saturating_sub(usize::from(self.final_state))
    }
}

/// A header as files have it, in the order in which it is written.
#[derive(Debug, Serialize)]
pub struct Header {
    pub little_endian: bool,
    pub fields: [FieldSpec; FIELDS],
    pub max_step: u64,
    pub uuid: u32,
    pub next_serial: u64,
    pub totals: (u64, u64),
    pub rng: [u64; 4],
    pub settings: Vec<Settings>,
    pub episodes: Vec<Episode>,
    pub largest: f64,
    pub parts: Vec<(String, Vec<u8>)>,
}

/// A file with this header and these entries.
pub fn file(header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"cogrs-rm".to_vec();
    bytes.extend(5_u32.to_le_bytes());
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header);
    bytes.extend(crc32fast::hash(header).to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes
}

/// Any file.
pub fn any_file(source: &mut Source) -> Vec<u8> {
    source.odd = source.pick(&[0, 0, 0, 0, 0, 0, 12, 60]);
    let fields = fields(source);
    let dims = EntrySpec::new(fields.clone()).map_or(1, |spec| spec.reward_dims());
    let has_critic = EntrySpec::new(fields.clone()).is_ok_and(|spec| spec.has_values());
    let settings: Vec<Settings> = (0..=source.below(3)).map(|_| settings(source, dims)).collect();
    let episodes = episodes(source, dims, has_critic, settings.len() as u64);
    let entries: u64 = episodes.iter().map(|episode| u64::from(episode.length)).sum();
    let next_serial = 1 + episodes.iter().map(|episode| episode.serial).max().unwrap_or(0);
    let recurrent = source.once_in(3).then(|| recurrent(source));
    let views: Vec<(ViewSettings, f64)> = match source.below(3) {
        0 => (0..=source.below(3)).map(|at| (view(source, at), largest(source))).collect(),
        _ => Vec::new(),
    };
    let mut header = Header {
        little_endian: !source.is_odd(),
        fields,
        max_step: entries.saturating_add(source.number(40)),
        uuid: 7,
        next_serial: next_serial.saturating_add(source.number(9).min(1 << 40)),
        totals: (source.number(99), source.number(999)),
        rng: std::array::from_fn(|_| source.bits()),
        settings,
        episodes,
        largest: largest(source),
        parts: Vec::new(),
    };
    if source.is_odd() {
        header.rng = [0; 4];
    }
    header.parts = parts(source, &header, recurrent.as_ref(), &views);
    let mut payload = payload(source, &header, recurrent.as_ref(), &views);
    let mut written = postcard::to_stdvec(&header).unwrap();
    if source.once_in(8) {
        damage(source, &mut written);
    }
    if source.once_in(16) {
        damage(source, &mut payload);
    }
    file(&written, &payload)
}

fn damage(source: &mut Source, bytes: &mut Vec<u8>) {
    for _ in 0..=source.below(2) {
        let at = source.below(bytes.len().max(1) as u64) as usize;
        let byte = source.bits() as u8;
        match source.below(4) {
            1 => bytes.insert(at, byte),
            _ if bytes.is_empty() => {}
            0 => bytes[at] = byte,
            2 => drop(bytes.remove(at)),
            _ => bytes[at..].fill(byte | 0x80),
        }
    }
}

fn fields(source: &mut Source) -> [FieldSpec; FIELDS] {
    let float = |shape: &[usize]| FieldSpec::new("<f4", 4, shape);
    let bytes = |count| FieldSpec::new("|u1", 1, &[count]);
    let reward: &[usize] = source.pick(&[&[][..], &[], &[3], &[1], &[0]]);
    let value = float(if source.once_in(8) { &[0] } else { reward });
    let state = bytes(source.pick(&[0, 1, 3, 8, 100]));
    let (action, info) = (bytes(source.below(3) as usize), bytes(source.below(3) as usize));
    let mut fields = [state, action, float(reward), float(&[]), value.clone(), value, info];
    if source.is_odd() {
        let at = source.below(FIELDS as u64) as usize;
        let shape: Vec<usize> = (0..source.below(4)).map(|_| source.edge() as usize).collect();
        let dtype = source.pick(&["<f4", "|u1", "<i8", "|S2000000000", "bfloat16", "", "[("]);
        let itemsize = source.number(9) as usize;
        fields[at] = FieldSpec::new(dtype, itemsize, &shape);
    }
    fields
}

/// Settings, in a memory with rewards of so many dimensions.
pub fn settings(source: &mut Source, dims: usize) -> Settings {
    let steps = |source: &mut Source| match source.below(30) {
        0 => source.edge() as usize,
        _ => source.pick(&[1, 1, 1, 2, 3, 7]),
    };
    let new_priority = match source.below(4) {
        0 => NewPriority::Max,
        1 => NewPriority::Number(source.float().min(f64::from(f32::MAX))),
        _ => NewPriority::Returns,
    };
    Settings {
        priority_exponent: source.float(),
        mix_lambda: source.share(),
        frame_stack: steps(source),
        multi_step: steps(source),
        cache_size: steps(source),
        max_episode: if source.once_in(2) { source.number(9) as usize } else { 0 },
        reuse_cache: source.once_in(2),
        discount_factor: (0..dims).map(|_| source.float()).collect(),
        reward_coeff: (0..dims).map(|_| source.float()).collect(),
        cache_flags: [true; FLAGS].map(|_| source.once_in(2)),
        new_priority,
        priority_epsilon: source.float(),
        frame_padding: source.pick(&FramePadding::ALL),
        sequence_eta: source.share(),
        sampler: source.pick(&Sampler::ALL),
        max_times_sampled: times_limit(source),
        remover: source.pick(&Remover::ALL),
    }
}

fn times_limit(source: &mut Source) -> u32 {
    source.pick(&[0, 0, 0, 1, 2, 255, 256, MANY_TIMES, u32::MAX])
}

fn largest(source: &mut Source) -> f64 {
    if source.is_odd() { source.float() } else { source.float().max(1.0) }
}

fn episodes(source: &mut Source, dims: usize, has_critic: bool, settings: u64) -> Vec<Episode> {
    let mut serial = source.number(4).min(1 << 40);
    let mut made = Vec::new();
    for _ in 0..source.below(9) {
        serial += source.number(3).min(1 << 40) + u64::from(!source.is_odd());
        let values = source.is_odd() || (has_critic && !source.once_in(4));
        let bound = if source.once_in(8) { 200 } else { 12 };
        let length = source.number(bound) as u32;
        made.push(Episode {
            serial,
            length: length.min(1 << 20),
            settings: source.number(settings) as u32,
            values,
            weights: values && !source.once_in(4),
            bootstrap: source
                .once_in(2)
                .then(|| (0..dims).map(|_| source.float().min(f64::from(f32::MAX))).collect()),
            final_state: source.once_in(2) && (length > 0 || source.is_odd()),
        });
    }
    made
}

/// The settings of a view, one of several.
pub fn view(source: &mut Source, at: u64) -> ViewSettings {
    let at = if source.is_odd() { 0 } else { at };
    ViewSettings {
        name: format!("view {at}"),
        priority_exponent: source.float(),
        sampler: source.pick(&Sampler::ALL),
        max_times_sampled: times_limit(source),
    }
}

fn recurrent(source: &mut Source) -> RecurrentSpec {
    let count = source.pick(&[0, 1, 5]);
    let more = usize::from(source.is_odd());
    let initial = source.bytes(count + more);
    let field = FieldSpec::new("|u1", 1, &[count]);
    RecurrentSpec { field, initial, period: (source.number(4) as usize).saturating_add(1) }
}

/// Any sequences that a learner may ask for.
pub fn shape(source: &mut Source) -> SequenceShape {
    let number = |source: &mut Source| match source.below(12) {
        0 => source.below(1 << 31) as usize,
        _ => source.number(6) as usize,
    };
    SequenceShape {
        length: number(source).saturating_add(1),
        burn_in: number(source),
        after: number(source),
        period: number(source).saturating_add(1),
        border: source.pick(&Border::ALL),
    }
}

/// A rate limiter that could be that of a memory of so many entries.
pub fn limiter(source: &mut Source, max_step: u64) -> Option<RateLimiter> {
    let min_size = 1 + source.below(max_step.clamp(1, 1 << 20));
    match source.below(3) {
        0 => RateLimiter::min_size(min_size).ok(),
        1 => RateLimiter::queue(1 + source.below(99)).ok(),
        _ => {
            let spi: f64 = source.pick(&[0.25, 1.0, 8.0, 1e9]);
            let buffer = spi.max(1.0) * (1 + source.below(9)) as f64;
            RateLimiter::new(spi, min_size, ErrorBuffer::Around(buffer)).ok()
        }
    }
}

fn parts(
    source: &mut Source,
    header: &Header,
    recurrent: Option<&RecurrentSpec>,
    views: &Vec<(ViewSettings, f64)>,
) -> Vec<(String, Vec<u8>)> {
    let mut parts = Vec::new();
    if let Some(recurrent) = recurrent {
        parts.push(("recurrent".to_owned(), postcard::to_stdvec(recurrent).unwrap()));
    }
    if source.once_in(3) {
        parts.push(("anchors".to_owned(), anchors(source, header)));
    }
    if !views.is_empty() {
        parts.push(("views".to_owned(), postcard::to_stdvec(views).unwrap()));
    }
    if source.once_in(3) {
        let held: usize = header.episodes.iter().map(Episode::actions).sum();
        let inserts = source.number(1000).saturating_add(held as u64);
        let removed = source.number(inserts.saturating_add(1));
        let counts = (inserts, source.number(1000), removed);
        let sound = limiter(source, header.max_step).map(|limiter| (limiter, counts));
        let ratio = (source.float(), source.float(), source.float(), source.once_in(2));
        let odd = ((source.number(9), Some(ratio)), counts);
        let written = match sound.filter(|_| !source.is_odd()) {
            Some(sound) => postcard::to_stdvec(&sound),
            None => postcard::to_stdvec(&odd),
        };
        parts.push(("limiter".to_owned(), written.unwrap()));
    }
    if source.is_odd() {
        parts.push(("other".to_owned(), source.bytes(3)));
    }
    for (_, part) in &mut parts {
        if source.is_odd() {
            damage(source, part);
        }
    }
    parts
}

/// The anchors of all episodes: as many as there are, unless the file is odd.
fn anchors(source: &mut Source, header: &Header) -> Vec<u8> {
    let sought = shape(source);
    let settings = &header.settings[0];
    let mut count = source.number(1).min(3);
    // As a memory has them: of shapes with the same anchors one stands for all.
    let shape = match sought.border {
        Border::Drop => sought,
        _ => SequenceShape { burn_in: 0, after: 0, border: Border::Clip, ..sought },
    };
    for episode in header.episodes.iter().filter(|_| shape.check().is_ok()) {
        let length = EpisodeLength { actions: episode.actions(), entries: episode.length as usize };
        let first = settings.unpadded_stack().wrapping_sub(1);
        count += shape.anchors(length, first).count() as u64;
    }
    let weights: Vec<f32> = (0..count).map(|_| source.weight()).collect();
    let limit = settings.max_times_sampled;
    let counted = if limit > 0 { count } else { 0 };
    let times: Vec<u32> = (0..counted).map(|_| count_of(source, limit)).collect();
    postcard::to_stdvec(&(shape, weights, times)).unwrap()
}

/// How often an entry was drawn.
fn count_of(source: &mut Source, limit: u32) -> u32 {
    if source.is_odd() { source.bits() as u32 } else { source.below(4).min(limit.into()) as u32 }
}

/// The bytes behind a header: those that it speaks of, unless they are too many.
fn payload(
    source: &mut Source,
    header: &Header,
    recurrent: Option<&RecurrentSpec>,
    views: &[(ViewSettings, f64)],
) -> Vec<u8> {
    let size = EntrySpec::new(header.fields.clone()).map_or(0, |spec| spec.entry_size());
    let entries: u64 = header.episodes.iter().map(|episode| u64::from(episode.length)).sum();
    if entries.saturating_mul(size as u64) > MOST {
        return Vec::new();
    }
    let limit = header.settings[0].max_times_sampled;
    let mut bytes = Vec::new();
    let odd = |source: &mut Source| source.pick(&[f32::NAN, -1.0, f32::INFINITY]);
    for episode in &header.episodes {
        let length = episode.length as usize;
        let weights = |source: &mut Source, count: usize, bytes: &mut Vec<u8>| {
            for _ in 0..count {
                let weight = if source.is_odd() { odd(source) } else { source.weight() };
                bytes.extend(weight.to_ne_bytes());
            }
        };
        let counts = |source: &mut Source, limit: u32, bytes: &mut Vec<u8>| {
            for _ in 0..if limit > 0 { length } else { 0 } {
                bytes.extend(count_of(source, limit).to_ne_bytes());
            }
        };
        weights(source, 2 * length, &mut bytes);
        counts(source, limit, &mut bytes);
        for (view, _) in views {
            weights(source, length, &mut bytes);
            counts(source, view.max_times_sampled, &mut bytes);
        }
        let rows = size * length;
        // Records end with float32 numbers, so that all of them are such in most files.
        let floats = source.floats(rows.div_ceil(4));
        bytes.extend(&floats[..rows]);
        if let Some(spec) = recurrent {
            let states = episode.actions().saturating_sub(1) / spec.period.max(1);
            bytes.extend(source.bytes(states * spec.initial.len()));
        }
    }
    bytes
}
