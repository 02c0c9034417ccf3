//! NumPy arrays by their C interface: made over memory of ours, and looked into.
#![allow(unsafe_code)]

use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, flags::NPY_ARRAY_CARRAY};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// Whether an array has this dtype and the shape `(*lead, *shape)`, and its bytes lie together in C order.
pub fn is_plain(
    array: &Bound<'_, PyUntypedArray>,
    dtype: &Py<PyArrayDescr>,
    lead: &[usize],
    shape: &[usize],
) -> bool {
    has_shape(array.shape(), lead, shape)
        && array.is_c_contiguous()
        && array.dtype().is_equiv_to(dtype.bind(array.py()))
}

pub fn has_shape(found: &[usize], lead: &[usize], shape: &[usize]) -> bool {
    found.strip_prefix(lead) == Some(shape)
}

/// Whether an array can be looked into as it is: a view counts strides in elements, and a field of packed
/// records, whose elements lie at any address, has others.
pub fn is_viewable(array: &Bound<'_, PyUntypedArray>) -> bool {
    let size = array.dtype().itemsize().max(1) as isize;
    array.is_aligned() && array.strides().iter().all(|stride| stride % size == 0)
}

/// Makes an array over memory that `owner` keeps.
///
/// # Safety
/// `data` must point to memory of the array's size, aligned for `dtype`, that lives and stays in place as
/// long as `owner` does and that nothing but arrays made over it reads or writes.
pub unsafe fn over<'py>(
    dtype: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    data: *mut u8,
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let mut dims: Vec<npyffi::npy_intp> =
        shape.iter().map(|&dim| dim as npyffi::npy_intp).collect();
    // SAFETY: the first call takes over one reference to `dtype`, copies `dims` and returns a new reference
    // or null with an exception set; the second takes over one reference to `owner`. The caller answers for
    // `data`.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            dtype.clone().into_dtype_ptr(),
            dims.len() as std::ffi::c_int,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast(),
            NPY_ARRAY_CARRAY,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let status =
            PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.clone().into_ptr());
        if status < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}
