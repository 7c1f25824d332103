//! Tests every registered filter against all its claims.

use tamis_conformance::suite;

tamis::registry!(suite);
