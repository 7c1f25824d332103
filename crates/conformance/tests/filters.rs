//! Every registered filter against everything that it claims.

use conformance::suite;

tamis::registry!(suite);
