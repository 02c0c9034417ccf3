"""Environments in Python: threads and processes that move them, and their spaces as arrays."""

# question                                         file
# how is an environment created and closed?        factory.py, env_api.py; first.py: the first one
# which arrays do its spaces become?               spaces.py; in a vector observations.py
# how do moves and their outcomes travel?          step_buffer.py; outcome.py: rewards and flags
# what makes the moves of games?                   stepper.py; in a thread: env_worker.py, in the
#                                                  caller's: inline.py, in a process: process.py
# what makes the moves of a vector?                python_vector.py; serial.py, threaded.py;
#                                                  in a process remote.py, vector_worker.py
# what do its environments have in common?         vector_description.py
# how do values get to another process?            portable.py; worker_process.py: the process
# which thread owns an environment?                owner.py
# how does a search ask the policy?                query.py
