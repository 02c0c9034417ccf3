//! The rate limiter against its two formulas in whole numbers, and a search for counts at which both sides wait.

use cogrs::error::Error;
use cogrs::replay::rate_limiter::{ErrorBuffer, LimiterCounts, RateLimiter};
use proptest::prelude::*;

/// Quarters: all numbers of these tests are multiples of one, so that the model computes exactly.
const UNIT: i64 = 4;

#[derive(Debug, Clone, Copy)]
struct Model {
    spi: i64,
    min_size: i64,
    low: i64,
    high: i64,
}

impl Model {
    fn limiter(self) -> Result<RateLimiter, Error> {
        let number = |quarters: i64| quarters as f64 / UNIT as f64;
        let buffer = ErrorBuffer::Between(number(self.low), number(self.high));
        RateLimiter::new(number(self.spi), self.min_size as u64, buffer)
    }

    fn is_accepted(self) -> bool {
        let center = self.min_size * self.spi;
        self.spi > 0
            && self.min_size >= 1
            && self.high - self.low >= 2 * self.spi.max(UNIT)
            && self.low <= center
            && center <= self.high
    }

    fn may_sample(self, n: i64, [inserts, samples, removed]: [i64; 3]) -> bool {
        inserts - removed >= self.min_size && inserts * self.spi - (samples + n) * UNIT >= self.low
    }

    fn may_insert(self, n: i64, [inserts, samples, removed]: [i64; 3]) -> bool {
        inserts + n - removed <= self.min_size
            || (inserts + n) * self.spi - samples * UNIT <= self.high
    }

    fn largest_batch(self) -> i64 {
        (self.high - self.low - self.spi).div_euclid(UNIT)
    }
}

fn counts([inserts, samples, removed]: [i64; 3]) -> LimiterCounts {
    LimiterCounts { inserts: inserts as u64, samples: samples as u64, removed: removed as u64 }
}

fn models() -> impl Strategy<Value = Model> {
    (-1..30i64, 0..12i64, -120..200i64, 0..100i64).prop_map(|(spi, min_size, low, width)| Model {
        spi,
        min_size,
        low,
        high: low + width,
    })
}

fn accepted() -> impl Strategy<Value = Model> {
    (1..30i64, 1..12i64, 0..40i64, 0..40i64).prop_map(|(spi, min_size, below, above)| {
        let half = spi.max(UNIT);
        let center = spi * min_size;
        Model { spi, min_size, low: center - half - below, high: center + half + above }
    })
}

fn some_counts() -> impl Strategy<Value = [i64; 3]> {
    (0..200i64)
        .prop_flat_map(|inserts| (Just(inserts), 0..400i64, 0..=inserts))
        .prop_map(<[i64; 3]>::from)
}

proptest! {
    #[test]
    fn options_that_could_block_both_sides_are_refused_and_all_others_accepted(model in models()) {
        prop_assert_eq!(model.limiter().is_ok(), model.is_accepted(), "{:?}", model.limiter());
    }

    #[test]
    fn sampling_and_inserting_follow_the_formulas(
        model in accepted(), n in 0..40i64, at in some_counts(),
    ) {
        let limiter = model.limiter().unwrap();
        let c = counts(at);
        prop_assert_eq!(limiter.may_sample(n as u64, &c), model.may_sample(n, at));
        prop_assert_eq!(limiter.sample_shortage(n as u64, &c).is_none(), model.may_sample(n, at));
        prop_assert_eq!(limiter.may_insert(n as u64, &c), model.may_insert(n, at));
        prop_assert_eq!(limiter.insert_shortage(&c).is_none(), model.may_insert(1, at));
    }

    #[test]
    fn number_of_inserts_left_is_the_largest_that_may_be_inserted(
        model in accepted(), at in some_counts(),
    ) {
        let left = (0..5_000).take_while(|&n| n == 0 || model.may_insert(n, at)).last().unwrap();
        prop_assert_eq!(model.limiter().unwrap().inserts_left(&counts(at)), Some(left as u64));
    }

    #[test]
    fn batch_is_refused_for_ever_exactly_above_high_minus_low_minus_samples_per_insert(
        model in accepted(), n in 0..80u64,
    ) {
        let limiter = model.limiter().unwrap();
        prop_assert_eq!(limiter.check_batch("batch_size", n).is_ok(), n as i64 <= model.largest_batch());
        prop_assert_eq!(limiter.largest_batch(), Some(model.largest_batch() as u64));
    }

    #[test]
    fn shortage_names_the_least_number_of_inserts_and_of_samples(
        model in accepted(), n in 1..40i64, at in some_counts(),
    ) {
        let limiter = model.limiter().unwrap();
        if let Some(text) = limiter.sample_shortage(n as u64, &counts(at)) {
            let [inserts, samples, removed] = at;
            let more = (1..10_000).find(|k| model.may_sample(n, [inserts + k, samples, removed])).unwrap();
            let entries = if more == 1 { "entry" } else { "entries" };
            let end = format!("; {more} more {entries} inserted would free it");
            prop_assert!(text.ends_with(&end), "{}", text);
        }
        if let Some(text) = limiter.insert_shortage(&counts(at)) {
            let [inserts, samples, removed] = at;
            let more = (1..10_000).find(|k| model.may_insert(1, [inserts, samples + k, removed])).unwrap();
            let word = if more == 1 { "sample" } else { "samples" };
            let end = format!("; {more} more {word} drawn would free it");
            prop_assert!(text.ends_with(&end), "{}", text);
        }
    }

    /// With any float, also one whose products are rounded.
    #[test]
    fn both_sides_never_wait_with_options_of_any_float(
        spi in 0.001..20.0f64,
        min_size in 1..1_000u64,
        extra in prop_oneof![Just(0.0), 0.0..3.0f64],
        inserts in 0..3_000_000_000u64,
        removed in 0..1_000u64,
    ) {
        let buffer = spi.max(1.0) + extra;
        let limiter = RateLimiter::new(spi, min_size, ErrorBuffer::Around(buffer)).unwrap();
        let largest = limiter.largest_batch().unwrap();
        prop_assert!(largest >= 1);
        let (low, high) = (min_size as f64 * spi - buffer, min_size as f64 * spi + buffer);
        let owed = inserts as f64 * spi;
        // Samples near both limits.
        for near in [owed - high, owed - low, owed - high + spi] {
            for offset in 0..5 {
                let samples = (near.max(0.0) as u64 + offset).saturating_sub(2);
                let c = LimiterCounts { inserts, samples, removed: removed.min(inserts) };
                prop_assert!(limiter.may_insert(1, &c) || limiter.may_sample(largest, &c));
            }
        }
    }
}

/// Goes through all counts that inserts of episodes while one entry may come, batches and removals reach, up to a common
/// shift of inserts and samples.
fn assert_never_blocked(limiter: &RateLimiter, spi: i64, batches: &[u64], episodes: &[u64]) {
    let high = limiter.ratio().unwrap().high * UNIT as f64;
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![LimiterCounts::default()];
    while let Some(c) = open.pop() {
        let held = (c.inserts - c.removed).min(limiter.min_size_to_sample() + 2);
        let owed = c.inserts as i64 * spi - c.samples as i64 * UNIT;
        if !seen.insert((held, owed)) {
            continue;
        }
        let may_insert = limiter.insert_shortage(&c).is_none();
        let sampled: Vec<u64> =
            batches.iter().copied().filter(|&n| limiter.sample_shortage(n, &c).is_none()).collect();
        assert!(
            may_insert || sampled.len() == batches.len(),
            "{limiter:?} waits at {c:?}, sampled: {sampled:?} of {batches:?}"
        );
        open.extend(sampled.iter().map(|n| LimiterCounts { samples: c.samples + n, ..c }));
        // Further up all batches may be sampled, or else inserts may come by the first clause.
        if may_insert && (owed as f64) < high + 10.0 * spi as f64 {
            open.extend(episodes.iter().map(|n| LimiterCounts { inserts: c.inserts + n, ..c }));
        }
        for removed in [1, held].into_iter().filter(|&n| n <= held) {
            open.push(LimiterCounts { removed: c.removed + removed, ..c });
        }
    }
    assert!(seen.len() > 10, "{}", seen.len());
}

#[test]
fn accepted_limiter_never_blocks_inserts_and_an_allowed_batch_at_once() {
    let mut searched = 0;
    for spi in [1, 2, 4, 6, 12] {
        for min_size in [1, 2, 5] {
            for (below, above) in [(0, 0), (0, 3), (5, 0), (7, 9)] {
                let half = spi.max(UNIT);
                let center = spi * min_size;
                let model = Model {
                    spi,
                    min_size,
                    low: center - half - below,
                    high: center + half + above,
                };
                let largest = model.largest_batch() as u64;
                let limiter = model.limiter().unwrap();
                for batches in [&[1, largest][..], &[largest]] {
                    assert_never_blocked(&limiter, spi, batches, &[1, 3]);
                    searched += 1;
                }
            }
        }
    }
    assert_eq!(searched, 120);
}

#[test]
fn queue_never_blocks_inserts_and_a_batch_up_to_its_size_at_once() {
    for size in 1..8 {
        let limiter = RateLimiter::queue(size).unwrap();
        assert_eq!(limiter.largest_batch(), Some(size));
        assert_never_blocked(&limiter, UNIT, &[size], &[1, 4]);
        assert!(limiter.check_batch("batch_size", size + 1).is_err());
    }
}

#[test]
fn batch_above_the_largest_can_block_both_sides() {
    let limiter = RateLimiter::new(1.0, 1, ErrorBuffer::Between(0.0, 2.0)).unwrap();
    assert_eq!(limiter.largest_batch(), Some(1));
    let c = LimiterCounts { inserts: 2, samples: 0, removed: 0 };
    assert!(!limiter.may_insert(1, &c) && !limiter.may_sample(3, &c));
}

#[test]
fn limiter_of_only_a_size_limits_neither_inserts_nor_the_batch() {
    let limiter = RateLimiter::min_size(3).unwrap();
    let c = |inserts, samples| LimiterCounts { inserts, samples, removed: 1 };
    assert!(!limiter.may_sample(1, &c(3, 0)));
    assert!(limiter.may_sample(1_000_000, &c(4, u64::MAX)));
    assert_eq!(limiter.inserts_left(&c(4, 0)), None);
    assert_eq!(
        (limiter.largest_batch(), limiter.check_batch("batch_size", u64::MAX)),
        (None, Ok(()))
    );
    assert_eq!(limiter.insert_shortage(&c(1_000_000, 0)), None);
}

#[test]
fn refused_options_are_named_with_what_was_expected_and_what_came() {
    let around =
        |spi, min_size, buffer| RateLimiter::new(spi, min_size, ErrorBuffer::Around(buffer));
    let between =
        |spi, min_size, low, high| RateLimiter::new(spi, min_size, ErrorBuffer::Between(low, high));
    let cases = [
        (around(0.0, 1, 9.0), "samples_per_insert", "> 0, got 0"),
        (around(-1.0, 1, 9.0), "samples_per_insert", "got -1"),
        (around(f64::NAN, 1, 9.0), "samples_per_insert", "got NaN"),
        (around(f64::INFINITY, 1, 9.0), "samples_per_insert", "got inf"),
        (around(1.0, 0, 9.0), "min_size", ">= 1, got 0"),
        (around(1.0, 1, f64::NAN), "error_buffer", "finite numbers"),
        (around(1.0, 1, f64::INFINITY), "error_buffer", "RateLimiter.min_size(m)"),
        (around(1e308, 100, 1.0), "error_buffer", "finite numbers"),
        (around(1.0, 1, 0.5), "error_buffer", "max(1, samples_per_insert) = 1, or"),
        (around(4.0, 1, 3.0), "error_buffer", "= 4, or samples and inserts could wait"),
        (around(1.0, 1, -5.0), "error_buffer", "got -5"),
        (
            between(4.0, 10, 36.0, 43.0),
            "error_buffer",
            "high - low >= 2 * max(1, samples_per_insert) = 8",
        ),
        (between(4.0, 10, 41.0, 60.0), "error_buffer", "low <= min_size * samples_per_insert = 40"),
        (between(4.0, 10, 0.0, 39.0), "error_buffer", "= 40 <= high"),
        (RateLimiter::min_size(0), "min_size", "got 0"),
        (RateLimiter::queue(0), "size", "got 0"),
    ];
    for (made, name, text) in cases {
        let error = made.unwrap_err();
        let Error::Value { argument, .. } = &error else { panic!("{error:?}") };
        assert_eq!(argument, name);
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn shortages_name_clause_counts_and_what_frees_them() {
    let limiter = RateLimiter::new(2.0, 10, ErrorBuffer::Around(5.0)).unwrap();
    let c = LimiterCounts { inserts: 8, samples: 3, removed: 1 };
    assert_eq!(
        limiter.sample_shortage(4, &c).unwrap(),
        "the rate limiter does not allow a batch of 4 yet: inserts - removed = 7 is below min_size = 10 \
         (inserts 8, samples 3, removed 1); 3 more entries inserted would free it"
    );
    let c = LimiterCounts { inserts: 12, samples: 8, removed: 2 };
    assert_eq!(
        limiter.sample_shortage(3, &c).unwrap(),
        "the rate limiter does not allow a batch of 3 yet: inserts * samples_per_insert - samples - 3 = 13 is \
         below low = 15 (inserts 12, samples 8, removed 2); 1 more entry inserted would free it"
    );
    let c = LimiterCounts { inserts: 20, samples: 15, removed: 0 };
    assert_eq!(
        limiter.insert_shortage(&c).unwrap(),
        "the rate limiter does not allow an insert yet: (inserts + 1) * samples_per_insert - samples = 27 is \
         above high = 25 (inserts 20, samples 15, removed 0); 2 more samples drawn would free it"
    );
    assert_eq!(
        limiter.check_batch("batch_size", 9).unwrap_err().to_string(),
        "batch_size: expected at most 8 samples in a batch, since the rate limiter never allows more than \
         high - low - samples_per_insert = 25 - 15 - 2, got 9"
    );
}

#[test]
fn limiter_of_a_file_is_valid_only_as_a_constructor_makes_it() {
    let made = [
        RateLimiter::new(0.1, 3, ErrorBuffer::Around(1.0)).unwrap(),
        RateLimiter::min_size(7).unwrap(),
        RateLimiter::queue(7).unwrap(),
    ];
    for limiter in made {
        assert!(limiter.is_valid());
        let bytes = postcard::to_stdvec(&limiter).unwrap();
        assert_eq!(postcard::from_bytes::<RateLimiter>(&bytes).unwrap(), limiter);
    }
    let forged: RateLimiter =
        postcard::from_bytes(&postcard::to_stdvec(&(0u64, None::<u8>)).unwrap()).unwrap();
    assert!(!forged.is_valid());
}

#[test]
fn ratio_reached_is_samples_over_inserts() {
    let c = LimiterCounts { inserts: 8, samples: 6, removed: 0 };
    assert_eq!(
        (c.samples_per_insert(), LimiterCounts::default().samples_per_insert()),
        (0.75, 0.0)
    );
}
