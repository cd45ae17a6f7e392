"""Tables of the GGMC paper, "Exact Langevin dynamics with stochastic gradients" (Garriga-Alonso and Fortuin 2021)."""

TABLES: dict = {}
