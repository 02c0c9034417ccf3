//! The seven fields of an entry: their names, dtypes and shapes.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The fields of an entry, in the order of the public tuples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// State, `s`.
    State,
    /// Action, `a`.
    Action,
    /// Reward, `r`.
    Reward,
    /// Probability of the action, `p`.
    Prob,
    /// Value, `v`.
    Value,
    /// Multi-step return, `q`.
    Qvest,
    /// Info, `i`.
    Info,
}

/// Dimensions of a field at most: the 32 that every NumPy has, less those for rows and stacked frames.
pub(crate) const MAX_DIMS: usize = 30;

/// Dimensions of a reward at most: settings have two numbers for each.
const MAX_REWARD_DIMS: usize = 1 << 17;

/// Bytes of a dtype's text at most.
const MAX_DTYPE: usize = 1 << 16;

/// Fields of an entry.
pub const FIELDS: usize = 7;

/// The fields of an entry that a writer sets; qvest is computed.
pub const WRITTEN: [Field; 6] =
    [Field::State, Field::Action, Field::Reward, Field::Prob, Field::Value, Field::Info];

/// The bytes of each written field, in the order of [`WRITTEN`], entry after entry.
pub type EntryRows<'a> = [&'a [u8]; WRITTEN.len()];

impl Field {
    /// All fields, in order.
    pub const ALL: [Self; FIELDS] =
        [Self::State, Self::Action, Self::Reward, Self::Prob, Self::Value, Self::Qvest, Self::Info];

    /// Position in the public tuples.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The long name.
    pub const fn name(self) -> &'static str {
        ["state", "action", "reward", "prob", "value", "qvest", "info"][self.index()]
    }

    /// The short name: the first letter.
    pub fn letter(self) -> &'static str {
        &self.name()[..1]
    }
}

/// dtype and shape of one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSpec {
    /// The dtype in NumPy's array-protocol notation; the name of one that is not NumPy's own; a structured one as a list of
    /// fields in Python's notation.
    pub dtype: String,
    /// Bytes of one element.
    pub itemsize: usize,
    /// Shape of one entry's value; empty for a scalar.
    pub shape: Vec<usize>,
}

impl FieldSpec {
    /// A field of this dtype, whose elements have `itemsize` bytes.
    pub fn new(dtype: &str, itemsize: usize, shape: &[usize]) -> Self {
        Self { dtype: dtype.into(), itemsize, shape: shape.into() }
    }

    /// Elements of one entry's value.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of one entry's value.
    pub fn nbytes(&self) -> usize {
        self.itemsize * self.elements()
    }

    /// Bytes of one entry's value; None where it does not fit the address space. As in NumPy, a shape of size 0 is bounded in
    /// its other dimensions too, and so are values of no bytes.
    pub fn checked_nbytes(&self) -> Option<usize> {
        let mut dims = self.shape.iter();
        let span =
            dims.try_fold(self.itemsize.max(1), |size, &dim| size.checked_mul(dim.max(1)))?;
        isize::try_from(span).ok()?;
        Some(if self.itemsize == 0 || self.shape.contains(&0) { 0 } else { span })
    }

    /// The common name of the dtype: `float64` for `<f8`, others unchanged.
    pub fn dtype_name(&self) -> String {
        let bits = self.itemsize.saturating_mul(8);
        let text = self.dtype.trim_start_matches(['<', '>', '=', '|']);
        let Some((kind, digits)) = text.split_at_checked(1) else { return self.dtype.clone() };
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return self.dtype.clone();
        }
        match kind {
            "f" => format!("float{bits}"),
            "c" => format!("complex{bits}"),
            "i" => format!("int{bits}"),
            "u" => format!("uint{bits}"),
            "b" => "bool".into(),
            _ => self.dtype.clone(),
        }
    }

    fn is_float32(&self) -> bool {
        self.itemsize == 4 && self.dtype.ends_with("f4")
    }
}

/// The seven fields of an entry, checked against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySpec {
    fields: [FieldSpec; FIELDS],
}

impl EntrySpec {
    /// Checks dtypes and shapes. Fails with [`Error::Type`] when reward, prob, value or qvest is not float32, with
    /// [`Error::Value`] when a shape does not fit: reward has at most one dimension, prob is a scalar, value and qvest have
    /// reward's shape or size 0.
    pub fn new(fields: [FieldSpec; FIELDS]) -> Result<Self> {
        let spec = Self { fields };
        let name = |field: Field| format!("{}_buf", field.name());
        let mut total = 0usize;
        for field in Field::ALL {
            let FieldSpec { itemsize, shape, dtype } = &spec[field];
            let name = name(field);
            if dtype.len() > MAX_DTYPE {
                let expected = format!("a dtype of at most {MAX_DTYPE} bytes of text");
                return Err(Error::kind(name, expected, dtype.len()));
            }
            if *itemsize == 0 {
                let got = format!("{dtype} of size 0");
                return Err(Error::kind(name, "a dtype of fixed size", got));
            }
            if shape.len() > MAX_DIMS {
                let expected = format!("at most {MAX_DIMS} dimensions");
                return Err(Error::value(name, expected, shape.len()));
            }
            let size = spec[field].checked_nbytes();
            let sum = size.and_then(|size| total.checked_add(size));
            total = sum.filter(|&sum| isize::try_from(sum).is_ok()).ok_or_else(|| {
                Error::value(
                    name,
                    "a shape whose bytes fit into the address space",
                    shape_text(shape),
                )
            })?;
        }
        for field in [Field::Reward, Field::Prob, Field::Value, Field::Qvest] {
            if !spec[field].is_float32() {
                return Err(Error::kind(name(field), "float32", spec[field].dtype_name()));
            }
        }
        let reward = &spec[Field::Reward].shape;
        if reward.len() > 1 {
            return Err(Error::value("reward_buf", "shape () or (R,)", shape_text(reward)));
        }
        if spec.reward_dims() > MAX_REWARD_DIMS {
            let expected = format!("at most {MAX_REWARD_DIMS} dimensions of the reward");
            return Err(Error::value("reward_buf", expected, spec.reward_dims()));
        }
        if !spec[Field::Prob].shape.is_empty() {
            return Err(Error::value("prob_buf", "shape ()", shape_text(&spec[Field::Prob].shape)));
        }
        for field in [Field::Value, Field::Qvest] {
            let shape = &spec[field].shape;
            if shape != reward && spec[field].elements() != 0 {
                let expected = format!("reward's shape {} or size 0", shape_text(reward));
                return Err(Error::value(name(field), expected, shape_text(shape)));
            }
        }
        Ok(spec)
    }

    /// All fields, in order.
    pub fn fields(&self) -> &[FieldSpec; FIELDS] {
        &self.fields
    }

    /// Bytes of one entry: the plain sum of its fields.
    pub fn entry_size(&self) -> usize {
        self.fields.iter().map(FieldSpec::nbytes).sum()
    }

    /// Reward dimensions; 1 for a scalar reward.
    pub fn reward_dims(&self) -> usize {
        self[Field::Reward].elements()
    }

    /// Whether returns can be computed: value and qvest have reward's size.
    pub fn has_values(&self) -> bool {
        let dims = self.reward_dims();
        self[Field::Value].elements() == dims && self[Field::Qvest].elements() == dims
    }
}

impl std::ops::Index<Field> for EntrySpec {
    type Output = FieldSpec;

    fn index(&self, field: Field) -> &FieldSpec {
        &self.fields[field.index()]
    }
}

/// A shape as Python writes it.
pub fn shape_text(shape: &[usize]) -> String {
    if let [only] = shape {
        return format!("({only},)");
    }
    let parts: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("({})", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_of_a_shape_that_fits_no_address_space_is_not_computed() {
        let spec = |itemsize, shape: &[usize]| FieldSpec::new("|V0", itemsize, shape);
        for itemsize in [0, 1, 8] {
            assert_eq!(spec(itemsize, &[usize::MAX / 2, 4]).checked_nbytes(), None);
            assert_eq!(spec(itemsize, &[0, usize::MAX / 2, 4]).checked_nbytes(), None);
            assert_eq!(spec(itemsize, &[3, 4]).checked_nbytes(), Some(12 * itemsize));
            assert_eq!(spec(itemsize, &[3, 0]).checked_nbytes(), Some(0));
        }
    }

    #[test]
    fn dtype_name_is_the_common_one() {
        let name = |dtype: &str, itemsize| FieldSpec::new(dtype, itemsize, &[]).dtype_name();
        assert_eq!(name("<f8", 8), "float64");
        assert_eq!(name("|u1", 1), "uint8");
        assert_eq!(name("|b1", 1), "bool");
        assert_eq!(name("<c16", 16), "complex128");
        for text in ["bfloat16", "int4", "float8_e5m2", "<M8[ns]", "<U3", "[('a', '<f4')]", ""] {
            assert_eq!(name(text, 2), text);
        }
    }
}
