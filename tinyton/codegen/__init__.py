"""From IR and layouts to C that reads well."""
