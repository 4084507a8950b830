module sovia

go 1.19
