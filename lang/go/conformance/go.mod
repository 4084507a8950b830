module sovia/conformance

go 1.19

require (
	golang.org/x/net v0.30.0
	sovia v0.0.0
)

replace sovia => ../
