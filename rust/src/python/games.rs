//! The built-in games as Python sees them.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error::Error;
use crate::games::acrobot::Acrobot;
use crate::games::cartpole::CartPole;
use crate::games::mountain_car::MountainCar;
use crate::games::mountain_car_continuous::MountainCarContinuous;
use crate::games::pendulum::Pendulum;
use crate::games::physics::{Physics, PhysicsStep};
use crate::games::{self, Action, GameFactory};
use crate::spec::FieldSpec;

fn described<'py>(py: Python<'py>, field: &FieldSpec) -> PyResult<Bound<'py, PyTuple>> {
    let numpy = py.import("numpy")?;
    let dtype = numpy.call_method1("dtype", (&field.dtype,))?;
    PyTuple::new(py, [dtype, PyTuple::new(py, &field.shape)?.into_any()])
}

/// Options in the order of their names, so that of several errors it is always the same that is raised.
pub fn named(options: Option<HashMap<String, f64>>) -> Vec<(String, f64)> {
    let mut options: Vec<_> = options.into_iter().flatten().collect();
    options.sort_by(|one, other| one.0.cmp(&other.0));
    options
}

#[doc = stub_doc!(game_spec)]
#[pyfunction]
#[pyo3(signature = (name, options = None))]
pub fn game_spec<'py>(
    py: Python<'py>,
    name: &str,
    options: Option<HashMap<String, f64>>,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = GameFactory::new(name, 1, &named(options))?.spec();
    let keys = PyDict::new(py);
    for (key, field) in &spec.keys {
        keys.set_item(key, described(py, field)?)?;
    }
    let all = PyDict::new(py);
    all.set_item("keys", keys)?;
    all.set_item("action", described(py, &spec.action)?)?;
    all.set_item("num_action", spec.num_action)?;
    all.set_item("players", spec.players)?;
    Ok(all)
}

fn step_of<P: Physics<N>, const N: usize>(
    state: Vec<f64>,
    action: &Bound<'_, PyAny>,
) -> PyResult<(Vec<f64>, f64, bool)> {
    let state: [f64; N] = state
        .try_into()
        .map_err(|state: Vec<f64>| Error::value("state", format!("{N} numbers"), state.len()))?;
    let step = if P::spec().action == games::int64(&[]) {
        P::step(state, Action(&action.extract::<i64>()?.to_ne_bytes()))
    } else {
        P::step(state, Action(&action.extract::<f32>()?.to_ne_bytes()))
    };
    let PhysicsStep { state, reward, terminated } = step?;
    Ok((state.into(), reward, terminated))
}

#[doc = stub_doc!(physics_step)]
#[pyfunction]
pub fn physics_step(
    game: &str,
    state: Vec<f64>,
    action: &Bound<'_, PyAny>,
) -> PyResult<(Vec<f64>, f64, bool)> {
    match game {
        "acrobot" => step_of::<Acrobot, 4>(state, action),
        "cartpole" => step_of::<CartPole, 4>(state, action),
        "mountain_car" => step_of::<MountainCar, 2>(state, action),
        "mountain_car_continuous" => step_of::<MountainCarContinuous, 2>(state, action),
        "pendulum" => step_of::<Pendulum, 2>(state, action),
        _ => {
            Err(Error::value("game", "a game with equations of motion", format!("{game:?}")).into())
        }
    }
}
