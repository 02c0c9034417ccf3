//! Observations and actions: array messages of a trial mostly differ in their data only.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// What observations, or actions, of a trial have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form {
    /// The dtype; the name of a message for arrays with names; "" for the bytes of another codec.
    pub kind: String,
    /// The shape.
    pub shape: Vec<u64>,
    /// Whether an episode ended with it.
    pub terminated: bool,
    /// Whether an episode was cut short with it.
    pub truncated: bool,
    /// The bytes before the data, if the data are all that follows them; else none.
    pub head: Vec<u8>,
}

/// A form, and the data that came with it.
#[derive(Debug, Clone)]
pub struct Payload<'a> {
    /// What it is.
    pub form: Arc<Form>,
    /// The elements.
    pub data: Cow<'a, [u8]>,
}

/// The forms of a trial, by the length of the contents that had them.
#[derive(Debug, Default)]
pub struct Forms(HashMap<usize, Arc<Form>, foldhash::fast::RandomState>);

impl Forms {
    /// Returns the payload of a content, which `parse` takes apart if its form is new.
    pub fn payload<'a, E>(
        &mut self,
        content: &'a [u8],
        parse: &mut impl FnMut(&[u8]) -> Result<(Form, Vec<u8>), E>,
    ) -> Result<Payload<'a>, E> {
        // The head ends with the length of the data, so equal heads leave nothing to parse.
        if let Some(form) = self.0.get(&content.len())
            && let Some(data) = content.strip_prefix(&form.head[..])
        {
            return Ok(Payload { form: Arc::clone(form), data: Cow::Borrowed(data) });
        }
        let (form, data) = parse(content)?;
        let form = Arc::new(form);
        if !form.head.is_empty() {
            self.0.insert(content.len(), Arc::clone(&form));
        }
        Ok(Payload { form, data: Cow::Owned(data) })
    }
}
